"""What the networks hold and what they cost, measured on the live modules (paper, Table of sizes; Appendix A.2).

Multiply-accumulates are reported twice. ``*_fvcore``: as fvcore counts them, which is how the paper's figure was made;
it leaves out ``padding="same"`` convolutions, fused attention and transforms. ``*_all``: every convolution, matrix
product and attention, and every FFT at 2.5 n log2 n multiply-accumulates (5 n log2 n real operations); element-wise
operations are in neither.

>>> counts = parameter_counts(["encoder"])["encoder"]
>>> counts["trainable"], counts["fixed"]
(1978190, 12288)
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from planformer.errors import MissingExtraError

if TYPE_CHECKING:
    from planformer.models.encoder import Encoder


def _lazy(module: str, name: str, *args: Any, **kwargs: Any) -> Callable[[], nn.Module]:
    """A builder that imports its class only when it is called."""

    def build() -> nn.Module:
        made: nn.Module = getattr(importlib.import_module(module), name)(*args, **kwargs)
        return made

    return build


def _encoder() -> Encoder:
    from planformer.config import PlanFormerConfig
    from planformer.models.encoder import Encoder

    return Encoder(PlanFormerConfig())


def _decoder(size: str) -> nn.Module:
    from planformer.models.decoder import Decoder
    from planformer.models.decoder_config import DecoderConfig

    with torch.device("meta"):  # only counted: 95 M numbers need not be drawn
        return Decoder(DecoderConfig(size=size))  # type: ignore[arg-type]


# Name -> builder. Add a network here and it appears in `planformer info`.
INVENTORY: dict[str, Callable[[], nn.Module]] = {
    "encoder": _encoder,
    "parseval_transformer_128": _lazy("planformer.nn.parseval", "ParsevalTransformer", 128),
    "parseval_transformer_512": _lazy("planformer.nn.parseval", "ParsevalTransformer", 512),
    "projection_head": _lazy("planformer.models.projection", "ProjectionHead"),
    "equivariant_transformer": _lazy("planformer.models.equivariance", "LatentEquivariantTransformer", domain="time"),
    "prediction_head": _lazy("planformer.models.equivariance", "PredictionHead"),
    "separation_transformer": _lazy("planformer.models.separation", "LatentSeparationTransformer", domain="time"),
    "decoder_paper": lambda: _decoder("paper"),
    "decoder_compact": lambda: _decoder("compact"),
}


def count_parameters(module: nn.Module) -> dict[str, int]:
    """``trainable``, ``fixed`` (tables that are part of the network but not learned) and their ``total``.

    >>> count_parameters(nn.Linear(3, 2))
    {'total': 8, 'trainable': 8, 'fixed': 0}
    """
    trainable = sum(p.numel() for p in module.parameters() if p.requires_grad)
    fixed = sum(p.numel() for p in module.parameters() if not p.requires_grad)
    fixed += sum(b.numel() for owner in module.modules() for b in _tables(owner))
    return {"total": trainable + fixed, "trainable": trainable, "fixed": fixed}


def parameter_counts(names: Iterable[str] | None = None) -> dict[str, dict[str, int]]:
    """Counts of every network in :data:`INVENTORY` (or of ``names``), each built for the purpose."""
    with torch.random.fork_rng(devices=[]):
        return {name: count_parameters(INVENTORY[name]()) for name in (names or INVENTORY)}


def mac_counts(encoder: Encoder | None = None) -> dict[str, int]:
    """Multiply-accumulates of one segment through the encoder: ``encoder_fvcore`` (if installed), ``encoder_all``."""
    if encoder is None:
        with torch.random.fork_rng(devices=[]):
            encoder = _encoder()
    segment = torch.zeros(1, 2 * encoder.config.segment)
    encoder = encoder.eval()
    counts = {}
    with contextlib.suppress(MissingExtraError):
        counts["encoder_fvcore"] = macs_fvcore(encoder, segment)
    counts["encoder_all"] = macs_all(encoder, segment)
    return counts


def macs_fvcore(module: nn.Module, *inputs: Tensor) -> int:
    """fvcore's count (extra ``eval``), with its warnings about operators it skips silenced."""
    try:
        from fvcore.nn import FlopCountAnalysis
    except ImportError as error:
        raise MissingExtraError("fvcore", "eval", "the fvcore figure") from error
    tracing = logging.getLogger("fvcore.nn.jit_analysis")
    level = tracing.level
    tracing.setLevel(logging.ERROR)
    try:
        with torch.no_grad():
            analysis = FlopCountAnalysis(_OutputTensors(module), inputs)
            analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
            analysis.set_op_handle("aten::matmul", _matmul_macs)
            return int(analysis.total())
    finally:
        tracing.setLevel(level)


def _matmul_macs(inputs: list[Any], outputs: list[Any]) -> int:
    """fvcore's own count of a matrix product, which fails where an operand is a vector."""
    first, second = (value.type().sizes() for value in inputs)
    return math.prod(first) * (second[-1] if len(second) > 1 else 1)


def macs_all(module: nn.Module, *inputs: Tensor) -> int:
    """Every convolution, matrix product, attention and FFT that really runs, in multiply-accumulates.

    >>> macs_all(nn.Linear(10, 3), torch.zeros(2, 10))
    60
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    # The fused CPU attention kernel reports nothing to the counter; the plain one is counted as the products it is.
    transforms, products = _FFTCounter(), FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), transforms, products:
        module(*inputs)
    return products.get_total_flops() // 2 + round(transforms.macs)


class _FFTCounter(TorchDispatchMode):
    """Adds 2.5 n log2 n for each n-point transform (half of it for real input or output)."""

    def __init__(self) -> None:
        super().__init__()
        self.macs = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.name()
        if name.startswith("aten::_fft"):
            full = max(args[0].numel(), result.numel())
            points = math.prod(max(args[0].shape[d], result.shape[d]) for d in args[1])
            self.macs += 2.5 * full * math.log2(max(points, 1)) * (1.0 if name.startswith("aten::_fft_c2c") else 0.5)
        return result


class _OutputTensors(nn.Module):
    """Tracing wants tensors, the encoder returns a data class."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        result = self.module(*inputs)
        if isinstance(result, Tensor):
            return (result,)
        values = result if isinstance(result, tuple) else vars(result).values()
        return tuple(value for value in values if isinstance(value, Tensor))


def _tables(module: nn.Module) -> list[Tensor]:
    """Buffers of one module that are saved with it; running statistics of a batch norm are not part of the design."""
    if isinstance(module, nn.modules.batchnorm._NormBase):
        return []
    skipped = module._non_persistent_buffers_set
    return [b for name, b in module._buffers.items() if b is not None and name not in skipped]
