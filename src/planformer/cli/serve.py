"""``planformer serve``: the web service and its page, on this machine only unless told otherwise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer

from planformer.errors import InputError, MissingExtraError

app = typer.Typer(add_completion=False)
LOCAL = ("127.0.0.1", "localhost")


@app.command()
def serve(
    host: str = typer.Option("127.0.0.1", help="Address to listen on; 0.0.0.0 for every network (set a token)."),
    port: int = typer.Option(8000, min=0, max=65535, help="Port; 0 takes a free one."),
    weights: str = typer.Option(None, help="Weights folder, hub name, random or random:SEED; default: shipped."),
    index: Path = typer.Option(None, help="A similarity index (planformer index add) for /similar."),
    probe: Path = typer.Option(None, help="A fitted scikit-learn classifier (joblib); runs its code, so trust it."),
    token: str = typer.Option(None, help="Bearer token that clients must send; default: $PLANFORMER_TOKEN."),
    max_mb: int = typer.Option(64, min=1, help="Largest request in megabytes (413 beyond)."),
    max_samples: int = typer.Option(10_000_000, min=1, help="Longest signal, all channels together (413 beyond)."),
    max_pending: int = typer.Option(64, min=1, help="Requests waiting at once (429 beyond)."),
    readers: int = typer.Option(2, min=1, help="Processes that read uploads."),
) -> None:
    """Serve embeddings, denoising, separation and similarity search over HTTP, with a page at /.

    Example: planformer serve --index idx
    """
    try:
        import torch
        import uvicorn

        from planformer.deploy.service import create_app
    except ImportError as error:
        raise MissingExtraError(error.name or "fastapi", "serve", "planformer serve") from error
    from planformer.deploy.service_limits import Limits
    from planformer.models.planformer import PlanFormer

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of this thread, which answers; the network's thread has them all
    limits = Limits(
        max_bytes=max_mb << 20, max_samples=max_samples, max_pending=max_pending, readers=readers, threads=threads
    )
    application = create_app(
        PlanFormer.load(weights),
        index=index,
        probe=None if probe is None else load_probe(probe),
        limits=limits,
        token=token or os.environ.get("PLANFORMER_TOKEN") or None,
        hosts=LOCAL
        if host in LOCAL
        else ("*",),  # a web page elsewhere can't reach a local service by a name of its own
    )
    typer.echo(f"http://{host}:{port or '(free port, see below)'}  stop with Ctrl-C", err=True)
    uvicorn.run(application, host=host, port=port, log_level="info" if port == 0 else "warning")


def load_probe(path: Path) -> Any:
    """A classifier that the user saved with joblib."""
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:  # a pickle can fail in any way
        raise InputError(f"{path}: not a classifier saved with joblib ({type(error).__name__})") from error
