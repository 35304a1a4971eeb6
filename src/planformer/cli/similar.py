"""``planformer similar``: the nearest neighbours of a file in an index."""

from __future__ import annotations

import json
from pathlib import Path

import typer

app = typer.Typer(add_completion=False)


@app.command()
def similar(
    file: Path = typer.Argument(..., help="A file of any kind."),
    index: Path = typer.Option(..., "--in", help="An index folder (planformer index add)."),
    k: int = typer.Option(10, "-k", min=1, help="How many neighbours."),
    kind: str = typer.Option(None, help="iq, audio, seismic, image, video, text, array; default: by the content."),
    rate: float = typer.Option(None, help="Samples per second, for files that don't say."),
    weights: str = typer.Option(None, help="The weights that the index was made with; default: shipped."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Nearest neighbours by the cosine of the embeddings: exact up to 100,000 items, approximate beyond.

    Example: planformer similar new.wav --in idx -k 10
    """
    from planformer.deploy.index import Index, item_vector

    opened = Index(index)
    from planformer.models.planformer import PlanFormer

    model = PlanFormer.load(weights)
    opened.check(model.fingerprint)
    found = next(model.iter_embed([file], kind=kind, rate=rate))
    if opened.must_build:
        typer.echo(f"building the search graph of {len(opened):,} items; it is kept for the next search ...", err=True)
    answer = opened.search(item_vector(found.embedding, found.channels), k)
    if as_json:
        hits = [{"path": hit.item.path, "kind": hit.item.kind, "score": hit.score} for hit in answer.hits]
        typer.echo(json.dumps({"neighbours": hits, "items": answer.searched, "recall": answer.recall}))
        return
    for hit in answer.hits:
        typer.echo(f"{hit.score:7.4f}  {hit.item.kind:<8} {hit.item.path}")
    how = "exact" if answer.recall is None else f"approximate, recall at 10 measured here: {answer.recall:.3f}"
    typer.echo(f"{answer.searched} items searched ({how})", err=True)
