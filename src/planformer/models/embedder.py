"""The encoder as a scikit-learn transformer, so that a probe is an ordinary pipeline.

>>> from sklearn.linear_model import RidgeClassifier
>>> from sklearn.pipeline import make_pipeline
>>> probe = make_pipeline(SignalEmbedder(model="random", rate=8000, kind="audio"), RidgeClassifier())
>>> t = np.arange(2000) / 8000
>>> tones = np.sin(2 * np.pi * np.array([[400.0], [410], [2000], [2010]]) * t)
>>> probe.fit(tones, ["low", "low", "high", "high"]).predict(tones[:1]).tolist()
['low']
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from planformer.errors import InputError, WeightsError
from planformer.models.planformer import PlanFormer
from planformer.models.readout import Readout


class SignalEmbedder(TransformerMixin, BaseEstimator):
    """Paths, arrays or Signals -> ``[n, 256 * channels]``. Nothing is learned: ``fit`` loads the frozen encoder.

    Args:
        model: None (shipped weights), "random", "random:SEED", a weights folder, a hub name, or a PlanFormer.
        rate: samples per second of arrays (files know their own).
        kind: "iq", "audio", "seismic", "image", "video", "text", "array"; None lets a file's name decide.
        readout: "latent" (256 numbers a channel) or "tokens" (mean and deviation of the tokens, 512).
        batch_size: segments that go through the network at once.
        progress: show a progress bar on standard error.
    """

    def __init__(
        self,
        model: PlanFormer | str | Path | None = None,
        *,
        rate: float | None = None,
        kind: str | None = None,
        readout: Readout = "latent",
        batch_size: int = 64,
        progress: bool = False,
    ) -> None:
        self.model = model
        self.rate = rate
        self.kind = kind
        self.readout = readout
        self.batch_size = batch_size
        self.progress = progress

    def fit(self, X: Iterable[Any], y: Any = None) -> SignalEmbedder:
        """Load the encoder and learn how many channels a signal has from the first item."""
        first = next(iter(X), None)
        if first is None:
            raise InputError("SignalEmbedder.fit: no signals")
        self.model_ = PlanFormer.load(self.model)
        self.fingerprint_ = self.model_.fingerprint
        self.n_features_out_ = int(self._embed([first], progress=False).shape[1])
        return self

    def transform(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """One row per signal."""
        check_is_fitted(self, "n_features_out_")
        features = self._embed(list(X), progress=self.progress)
        if len(features) and features.shape[1] != self.n_features_out_:
            raise InputError(
                f"signals have {features.shape[1]} features, but the embedder was fitted with {self.n_features_out_}: "
                "every signal needs the same number of channels"
            )
        return features.reshape(-1, self.n_features_out_)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """``time_0 … time_127, frequency_0 … frequency_127``, with ``channel<c>_`` before them if there are several."""
        check_is_fitted(self, "n_features_out_")
        names = self.model_.feature_names(self.readout)
        channels = self.n_features_out_ // len(names)
        if channels > 1:
            names = [f"channel{c}_{name}" for c in range(channels) for name in names]
        return np.asarray(names, dtype=object)

    def _embed(self, items: list[Any], *, progress: bool) -> npt.NDArray[np.float32]:
        return self.model_.embed_many(
            items,
            rate=self.rate,
            kind=self.kind,
            readout=self.readout,
            batch_size=self.batch_size,
            progress=progress,
        )

    def __getstate__(self) -> dict[str, Any]:
        # A pickle holds the name of the weights and their hash, not eight megabytes of a network that can be loaded.
        state: dict[str, Any] = dict(super().__getstate__())
        if not isinstance(self.model, PlanFormer):
            state.pop("model_", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "fingerprint_" in state and "model_" not in state:
            self.model_ = PlanFormer.load(self.model)
            if self.model_.fingerprint != self.fingerprint_:
                raise WeightsError(
                    f"the stored embedder used weights {self.fingerprint_[:12]}, but {self.model or 'shipped ones'} "
                    f"are now {self.model_.fingerprint[:12]}; fit it again"
                )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.requires_fit = True
        tags.no_validation = True
        return tags
