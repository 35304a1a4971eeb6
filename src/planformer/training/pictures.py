"""Pictures of a run: t-SNE of held-out embeddings, and reconstructions over their originals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor

from planformer.files import replace_file
from planformer.iq import deinterleave


def draw_tsne(embeddings: npt.NDArray[np.floating], labels: npt.NDArray[np.int64], path: Path) -> None:
    """A map of the embeddings, one colour per emitter."""
    from sklearn.manifold import TSNE

    spread = embeddings.std(0)
    x = (embeddings - embeddings.mean(0)) / np.where(spread > 0, spread, 1.0)
    perplexity = min(30.0, max(2.0, (len(x) - 1) / 4))
    places = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(x)
    figure, axes = _figure(1, 6.0)
    axes[0].scatter(places[:, 0], places[:, 1], c=labels, cmap="nipy_spectral", s=8)
    axes[0].set(title="held-out sequences, colour = emitter", xticks=[], yticks=[])
    _save(figure, path)


def draw_reconstructions(target: Tensor, waveform: Tensor, path: Path, *, samples: int = 256) -> None:
    """Interleaved ``[k, 2n]`` originals and reconstructions: the first samples, and the spectra in dB."""
    figure, axes = _figure(2 * len(target), 2.2)
    for row, (a, b) in enumerate(zip(deinterleave(target), deinterleave(waveform.detach()), strict=True)):
        time, spectrum = axes[2 * row], axes[2 * row + 1]
        for x, name in ((a, "original"), (b, "reconstruction")):
            time.plot(x.real[:samples].numpy(), lw=0.8, label=name)
            power = np.fft.fftshift(np.abs(np.fft.fft(x.numpy(), norm="ortho")) ** 2)
            spectrum.plot(10 * np.log10(power.reshape(-1, 10).mean(1) + 1e-8), lw=0.8)
        time.set(ylabel="real part")
        spectrum.set(ylabel="dB")
    axes[0].legend(loc="upper right", fontsize=8)
    _save(figure, path)


def _figure(rows: int, height: float) -> tuple[object, npt.NDArray[np.object_]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, height * rows), layout="constrained")
    return figure, figure.subplots(rows, 1, squeeze=False)[:, 0]


def _save(figure: object, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda temporary: figure.savefig(temporary, dpi=100))  # type: ignore[attr-defined]
