"""`planformer`: the table of verbs, and the one place where errors become exit codes.

A verb is a module ``planformer.cli.<name>`` with a ``typer.Typer`` called ``app``; it is imported only when it is
called, so that ``planformer --help`` imports neither torch nor typer.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
from typing import NoReturn

from planformer import __version__
from planformer.errors import PlanFormerError
from planformer.memory import keep_freed_memory

# verb -> (module, one line for --help). The order is the order of the user's path.
VERBS: dict[str, tuple[str, str]] = {
    "quickstart": ("quickstart", "The main job on data that the package makes itself."),
    "embed": ("embed", "Any files -> one row of 256 numbers each."),
    "inspect": ("inspect", "What is in a file: kind, rate, power, spectrum."),
    "probe": ("probe", "A folder per class -> accuracy table, confusion matrix, t-SNE."),
    "evaluate": ("evaluate", "The paper's table on the data you have, every baseline beside the model."),
    "reconstruct": ("reconstruct", "Encode and decode a file."),
    "denoise": ("denoise", "Remove noise from a file."),
    "separate": ("separate", "Split a mixture of two sources."),
    "simulate": ("simulate", "Write simulated radio recordings with emitter labels."),
    "pretrain": ("pretrain", "Train the encoder on radio recordings."),
    "ablate": ("ablate", "Same data, same steps, one change: a table of probe results."),
    "runs": ("runs", "Summaries of training runs."),
    "publish": ("publish", "Turn a run's best checkpoint into a weights folder."),
    "export": ("export", "Write the encoder as ONNX."),
    "stream": ("stream", "Embed raw samples from standard input as they arrive."),
    "serve": ("serve", "A local web service with a page."),
    "index": ("index", "Build a similarity index."),
    "similar": ("similar", "Nearest neighbours of a file in an index."),
    "info": ("info", "Versions, device, weights, parameter and MAC counts."),
}


def main(argv: list[str] | None = None) -> NoReturn:
    """Entry point: run one verb. A :class:`PlanFormerError` becomes one line on standard error and exit code 2."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        _print_help()
        sys.exit(0)
    if arguments[0] in ("--version", "-V"):
        print(f"planformer {__version__}")
        sys.exit(0)
    verb = arguments[0]
    if verb not in available_verbs():
        close = difflib.get_close_matches(verb, available_verbs(), n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        _fail(f"no verb '{verb}': {hint}'planformer --help' lists them", 2)
    _run(verb, arguments[1:])


def available_verbs() -> list[str]:
    """The verbs whose module is installed, in the order of the help."""
    return [v for v, (module, _) in VERBS.items() if importlib.util.find_spec(f"planformer.cli.{module}")]


def _run(verb: str, arguments: list[str]) -> NoReturn:
    keep_freed_memory()  # this process is ours: docs/decisions.md has the gain
    try:
        app = importlib.import_module(f"planformer.cli.{VERBS[verb][0]}").app
        app(args=arguments, prog_name=f"planformer {verb}")
    except PlanFormerError as error:
        _fail(str(error), 2)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except BrokenPipeError:  # the reader went away (| head): not an error, but nothing more can be flushed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except MemoryError:
        _fail("out of memory: use a smaller --batch-size or a shorter input", 2)
    sys.exit(0)


def _print_help() -> None:
    print(f"planformer {__version__}: any signal to a 256-number embedding\n")
    print("usage:   planformer VERB [OPTIONS]        planformer VERB --help")
    print("example: planformer embed a.wav b.sigmf-meta c.png d.txt -o out.parquet\n")
    for verb in available_verbs():
        print(f"  {verb:<12} {VERBS[verb][1]}")


def _fail(message: str, code: int) -> NoReturn:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
