"""MFCC mean and deviation, 26 numbers (Appendix "MFCC Baseline Features"): python_speech_features with its defaults."""

from __future__ import annotations

import logging

import numpy as np

from planformer.errors import MissingExtraError
from planformer.evaluation.featurisers import Advance, Features, Featuriser, stack_channels
from planformer.evaluation.tasks import TaskData


class Mfcc(Featuriser):
    name = "mfcc"
    title = "MFCC mean and deviation"

    @property
    def identity(self) -> str:
        return "mfcc:v1:python_speech_features defaults"

    def not_applicable(self, data: TaskData) -> str | None:
        return None if data.kind == "audio" else "sound only"

    def features(self, data: TaskData, advance: Advance | None = None) -> Features:
        try:
            from python_speech_features import mfcc
        except ImportError as error:
            raise MissingExtraError("python_speech_features", "eval", "the MFCC baseline") from error
        # The library warns for every file that a 25 ms frame at 44.1 kHz is longer than its 512-point transform.
        logging.getLogger().setLevel(max(logging.ERROR, logging.getLogger().level))
        rows = []
        for index in range(len(data)):
            signal = data.signal(index)
            channels = []
            for samples in signal.samples.real:
                frames = mfcc(samples.astype(np.float64) * 32768.0, signal.rate)  # [frames, 13]
                channels.append(np.concatenate([frames.mean(axis=0), frames.std(axis=0)]))
            rows.append(np.stack(channels).astype(np.float32))
            if advance:
                advance(1)
        stacked = stack_channels(rows)
        return stacked.reshape(len(stacked), -1)
