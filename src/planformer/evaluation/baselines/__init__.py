"""What the model has to beat, by name; each on the same rows, splits and probes."""

from __future__ import annotations

import importlib
from typing import get_args

from planformer.config import Start
from planformer.errors import InputError
from planformer.evaluation.featurisers import Featuriser

# name -> "module:class". "random" (the untrained encoder, three seeds) and "majority" are handled by the runner.
BASELINES: dict[str, str] = {
    "raw": "raw:RawSamples",
    "log-spectrum": "spectrum:LogSpectrum",
    "mfcc": "mfcc:Mfcc",
    "rocket": "rocket:RandomKernels",
    "clip": "peers:Clip",
    "dino": "peers:Dino",
}
DEFAULT = ("random", "raw", "log-spectrum", "mfcc", "rocket", "majority")
RANDOM = ("random", *(f"random-{start}" for start in get_args(Start)))  # untrained: as the model began, or otherwise
ALL = (*RANDOM, *BASELINES, "majority")


def get_baseline(name: str) -> Featuriser:
    """The baseline called ``name``.

    >>> get_baseline("raw").title
    'raw samples, random projection to 256'
    """
    if name not in BASELINES:
        raise InputError(f"there is no baseline {name!r}: choose from {', '.join(ALL)}")
    module, cls = BASELINES[name].split(":")
    made = getattr(importlib.import_module(f"planformer.evaluation.baselines.{module}"), cls)()
    assert isinstance(made, Featuriser)
    return made
