"""Log-spectrum: mean and deviation over frames of the log power in 128 bands, 256 numbers a channel."""

from __future__ import annotations

import numpy as np

from planformer.evaluation.featurisers import Features, SegmentFeatures, Segments

BANDS = 128
FRAME = 256
HOP = 128


class LogSpectrum(SegmentFeatures):
    name = "log-spectrum"
    title = "log-spectrum, mean and deviation of 128 bands"

    def channel_features(self, segments: Segments, *, analytic: bool) -> Features:
        channels = segments.shape[0]
        window = np.hanning(FRAME).astype(np.float32)
        frames = np.lib.stride_tricks.sliding_window_view(segments, FRAME, axis=2)[:, :, ::HOP]
        power = np.abs(np.fft.fft(frames * window, axis=-1)) ** 2  # (channels, S, frames, 256)
        if analytic:
            bands = power[..., :BANDS]  # an analytic signal has no negative frequencies
        else:
            shifted = np.fft.fftshift(power, axes=-1)
            bands = shifted.reshape(*shifted.shape[:-1], BANDS, 2).mean(axis=-1)
        # Silent frames (zero padding) would put the floor, not the signal, into the mean.
        level = np.log10(bands + 1e-6).reshape(channels, -1, BANDS)
        loud = bands.reshape(channels, -1, BANDS).sum(axis=-1) > 1e-6
        rows = [frames_of[keep] if keep.any() else frames_of for frames_of, keep in zip(level, loud, strict=True)]
        return np.stack([np.concatenate([row.mean(axis=0), row.std(axis=0)]) for row in rows]).astype(np.float32)
