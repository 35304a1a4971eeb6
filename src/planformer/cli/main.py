"""`planformer`: a lazily loading group of verbs, and the one place where errors become exit codes.

A verb is a module ``planformer.cli.<name>`` with a ``typer.Typer`` called ``app``; it is imported only when it is
called, so that ``planformer --help`` never imports torch.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click
import typer
from typer.core import TyperGroup

from planformer.errors import PlanFormerError

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


class LazyGroup(TyperGroup):
    """A group that knows its verbs by name and imports one only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verb, (module, _) in VERBS.items() if _exists(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS or not _exists(VERBS[cmd_name][0]):
            return None
        module, summary = VERBS[cmd_name]
        if ctx.resilient_parsing or _only_help(ctx):
            return click.Command(cmd_name, help=summary)
        command = typer.main.get_command(importlib.import_module(f"planformer.cli.{module}").app)
        command.name = cmd_name
        return command


def _exists(module: str) -> bool:
    return importlib.util.find_spec(f"planformer.cli.{module}") is not None


def _only_help(ctx: click.Context) -> bool:
    """True while the group itself is printing its help: no verb on the command line."""
    return not any(arg in VERBS for arg in sys.argv[1:])


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Any signal to a 256-number embedding. Example: [bold]planformer embed a.wav b.png -o out.parquet[/bold]",
)


def _version(value: bool) -> None:
    if value:
        from planformer import __version__

        typer.echo(f"planformer {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main(argv: list[str] | None = None) -> None:
    """Entry point. A :class:`PlanFormerError` becomes one line on standard error and exit code 2."""
    try:
        code: Any = app(args=argv, standalone_mode=False)
    except PlanFormerError as error:
        _fail(str(error), 2)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted", 130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except MemoryError:
        _fail("out of memory: use a smaller --batch-size or a shorter input", 2)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
