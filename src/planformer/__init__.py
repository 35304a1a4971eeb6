"""PlanFormer: any signal (radio, sound, seismogram, image, video, bytes) to a 256-number embedding.

>>> import planformer
>>> model = planformer.PlanFormer.random(seed=0)      # or .from_pretrained()
>>> model.embed([0.0, 1.0, 0.0, -1.0] * 2000, rate=8000, kind="audio").shape
(256,)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module. Resolved on first use (PEP 562), so that `import planformer` does not import torch.
_EXPORTS = {
    "PlanFormer": "planformer.models.planformer",
    "PlanFormerConfig": "planformer.config",
    "SignalEmbedder": "planformer.models.embedder",
    "Signal": "planformer.signals",
    "read": "planformer.signals",
    "StreamingEmbedder": "planformer.deploy.streaming",
    "PlanFormerError": "planformer.errors",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'planformer' has no attribute {name!r}")
    value = getattr(importlib.import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:  # for type checkers and editors; at run time the names come from __getattr__
    from planformer.config import PlanFormerConfig as PlanFormerConfig
    from planformer.deploy.streaming import StreamingEmbedder as StreamingEmbedder
    from planformer.errors import PlanFormerError as PlanFormerError
    from planformer.models.embedder import SignalEmbedder as SignalEmbedder
    from planformer.models.planformer import PlanFormer as PlanFormer
    from planformer.signals import Signal as Signal
    from planformer.signals import read as read
