"""The encoder as an ONNX file that carries its own description, checked against torch before it is kept.

Input ``iq``: prepared segments, interleaved, float32 ``[batch, 10240]``. Outputs: ``time_tokens [batch, 80, 128]``,
``frequency_tokens [batch, 16, 128]``, ``time_latent`` and ``frequency_latent [batch, 128]`` of each segment, and
``signal_embedding [256]``, which takes the rows as consecutive segments of one signal. How a signal becomes segments is
in the file's metadata (``planformer.preprocess``), and in ``examples/onnx_wav.py`` in NumPy.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from planformer import __version__, iq
from planformer.errors import InputError, MissingExtraError, PlanFormerError
from planformer.files import replace_file
from planformer.signals import from_array, prepare

if TYPE_CHECKING:
    from planformer.models.planformer import PlanFormer

OPSET = 18
TOLERANCE = 1e-4
OUTPUTS = ("time_tokens", "frequency_tokens", "time_latent", "frequency_latent", "signal_embedding")


class ExportError(PlanFormerError):
    """The exported network does not give torch's numbers, so it was not kept."""


class SegmentNetwork(nn.Module):
    """The encoder with plain tensors as outputs, and without what only training needs."""

    def __init__(self, model: PlanFormer) -> None:
        super().__init__()
        self.encoder = model.encoder

    def forward(self, segments: Tensor) -> tuple[Tensor, ...]:
        tokens = self.encoder.tokenize(segments, return_aux=False)
        time, frequency = self.encoder.pool(tokens.time, tokens.frequency)
        signal = torch.cat(self.encoder.pool_segments(tokens.time, tokens.frequency), -1)
        return tokens.time, tokens.frequency, time, frequency, signal


def export_onnx(model: PlanFormer, path: str | Path, *, opset: int = OPSET) -> dict[str, float]:
    """Write ``model`` to ``path`` and return the largest difference from torch per kind of input.

    A file that differs by more than 1e-4 anywhere is not written: :class:`ExportError`.
    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise InputError(f"{path}: an ONNX file's name ends in .onnx")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: folder {path.parent} does not exist")
    if opset < OPSET:
        raise InputError(f"opset {opset}: at least {OPSET} is needed")
    _import_runtime()
    program = _to_onnx(model, opset)
    differences: dict[str, float] = {}

    def write(temporary: Path) -> None:
        import onnx

        proto = program.model_proto
        onnx.helper.set_model_props(proto, metadata(model))
        onnx.save(proto, str(temporary))
        differences.update(parity(model, temporary))
        wrong = {kind: value for kind, value in differences.items() if not value <= TOLERANCE}  # NaN is wrong too
        if wrong:
            found = ", ".join(f"{value:.1e} on {kind}" for kind, value in wrong.items())
            raise ExportError(f"{path}: onnxruntime differs from torch by {found}, so it was not written")

    replace_file(path, write)
    return differences


def metadata(model: PlanFormer) -> dict[str, str]:
    """What a user of the file has to know, as ONNX metadata (strings)."""
    return {
        "planformer.version": __version__,
        "planformer.weights": model.fingerprint,
        "planformer.config": model.config.model_dump_json(),
        "planformer.preprocess": model.preprocess.model_dump_json(),
        "planformer.input": f"float32 [batch, {2 * model.config.segment}]: segments of {model.config.segment} complex "
        "samples, I and Q interleaved, prepared as planformer.preprocess says",
        "planformer.outputs": json.dumps(OUTPUTS),
    }


def parity(model: PlanFormer, path: str | Path) -> dict[str, float]:
    """Largest absolute difference of any output between onnxruntime and torch, per kind of input."""
    run = _import_runtime()
    options = run.SessionOptions()
    options.log_severity_level = 3
    session = run.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    network = SegmentNetwork(model).eval()
    found = {}
    for kind, segments in example_segments(model).items():
        rows = np.ascontiguousarray(segments).view(np.float32)  # [k, 10240]
        with torch.inference_mode():
            expected = [value.cpu().numpy() for value in network(torch.from_numpy(rows).to(model.device))]
        given = session.run(list(OUTPUTS), {"iq": rows})
        found[kind] = float(np.max([np.abs(a - b).max() for a, b in zip(given, expected, strict=True)]))
    return found


def example_segments(model: PlanFormer) -> dict[str, npt.NDArray[np.complex64]]:
    """Segments ``[k, 5120]`` of each kind, from signals made here, of different batch sizes."""
    rng = np.random.default_rng(0)
    n = model.config.segment
    symbols = np.exp(1j * (np.pi / 4 + np.pi / 2 * rng.integers(0, 4, -(-2 * n // 8)))).repeat(8)[: 2 * n]
    radio = symbols * np.exp(0.3j * np.arange(2 * n)) + 0.1 * (rng.standard_normal((2, 2 * n)).T @ [1, 1j])
    t = np.arange(int(2.5 * n)) / 16000
    sound = sum(np.sin(2 * np.pi * 220 * k * t) / k for k in range(1, 9)) * np.exp(-3 * t)
    row, column = np.mgrid[:28, :28]
    image = (255 * ((row - 14) ** 2 + (column - 11) ** 2 < 60)).astype(np.uint8)
    text = (__doc__ or "").encode()
    signals = {
        "radio": from_array(radio.astype(np.complex64), 1e6, "iq"),
        "sound": from_array(sound, 16000, "audio"),
        "image": from_array(image, None, "image"),
        "text": from_array(text, None, "text"),
    }
    return {kind: prepare(signal, model.preprocess)[0] for kind, signal in signals.items()}


def _to_onnx(model: PlanFormer, opset: int) -> Any:
    """torch.export, our own median, then the ONNX translation. Transforms are traced as real matrix products."""
    network = SegmentNetwork(model).eval()
    example = torch.zeros(2, 2 * model.config.segment)
    batch = torch.export.Dim("batch", min=1, max=1 << 16)
    with torch.no_grad(), iq.real_arithmetic(), _quiet():
        program = torch.export.export(network, (example,), dynamic_shapes={"segments": {0: batch}})
        program = program.run_decompositions(_DECOMPOSITIONS)
        return torch.onnx.export(
            program,
            (),
            dynamo=True,
            opset_version=opset,
            input_names=["iq"],
            output_names=list(OUTPUTS),
            # The exporter's optimiser takes 1e-8 for 0 and drops "x + 1e-8": silence would be divided by zero.
            optimize=False,
            verbose=False,
        )


def _median(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """torch's (lower) median from the smallest half: ONNX has no median, but it has TopK."""
    k = (x.shape[dim] - 1) // 2 + 1
    values, indices = torch.topk(x, k, dim, largest=False, sorted=True)
    values, indices = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def _clamp(x: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
    """In two steps with floats: the exporter trips over one integer and one float bound."""
    if min is not None:
        x = torch.clamp_min(x, float(min))
    return x if max is None else torch.clamp_max(x, float(max))


def _attention(query: Tensor, key: Tensor, value: Tensor, *_: Any, scale: float | None = None, **__: Any) -> Tensor:
    """Attention as two products: the exporter's own version takes four axes only."""
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    return torch.softmax(query @ key.transpose(-1, -2) * factor, -1) @ value


# What the exporter does not translate, or translates for some shapes only -> the same in plain operators.
_DECOMPOSITIONS: dict[Any, Any] = {
    torch.ops.aten.median.dim: _median,
    torch.ops.aten.clamp.default: _clamp,
    torch.ops.aten.scaled_dot_product_attention.default: _attention,
}


def _import_runtime() -> Any:
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("onnx, onnxscript and onnxruntime", "export", "ONNX export") from error
    return onnxruntime


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter talks about its own deprecations; nothing of it is for the user."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
