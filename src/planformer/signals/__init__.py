"""Any file or array becomes a :class:`Signal`, any signal becomes segments for the encoder. No torch is imported."""

from planformer.signals.analytic import analytic
from planformer.signals.preprocess import PreprocessConfig, prepare, prepare_images
from planformer.signals.reading import read
from planformer.signals.resampling import analytic_resample, resample_length, resample_rate
from planformer.signals.sigmf_files import write_sigmf
from planformer.signals.signal import KINDS, Kind, Signal, from_array
from planformer.signals.snake import roll_back, snake_indices, unwrap
from planformer.signals.streaming import iter_segments
from planformer.signals.writers import match_level, write

__all__ = [
    "KINDS",
    "Kind",
    "PreprocessConfig",
    "Signal",
    "analytic",
    "analytic_resample",
    "from_array",
    "iter_segments",
    "match_level",
    "prepare",
    "prepare_images",
    "read",
    "resample_length",
    "resample_rate",
    "roll_back",
    "snake_indices",
    "unwrap",
    "write",
    "write_sigmf",
]
