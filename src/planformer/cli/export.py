"""``planformer export``: the encoder as one ONNX file, checked against torch before it is kept."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(add_completion=False)


@app.command()
def export(
    onnx: Path = typer.Option(..., "--onnx", help="The file to write."),
    opset: int = typer.Option(18, help="ONNX operator set, at least 18."),
    weights: str = typer.Option(None, help="Weights folder, hub name, random or random:SEED; default: shipped."),
) -> None:
    """Write the encoder as ONNX: any batch size, tokens and latents as outputs, preprocessing in the metadata.

    Example: planformer export --onnx planformer.onnx
    """
    from planformer.deploy.onnx import TOLERANCE, export_onnx
    from planformer.models.planformer import PlanFormer

    model = PlanFormer.load(weights)
    typer.echo("exporting (about a minute) ...", err=True)
    differences = export_onnx(model, onnx, opset=opset)
    for kind, value in differences.items():
        typer.echo(f"{kind}: largest difference from torch {value:.1e}")
    size = onnx.stat().st_size / 1e6
    typer.echo(f"{onnx}: {size:.1f} MB, weights {model.fingerprint[:12]}, all within {TOLERANCE:.0e}")
