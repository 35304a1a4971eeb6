"""Pictures of the report as PNG: confusion matrices, t-SNE (Appendix "Representation Structure Visualization")."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

TSNE_ROWS = 800
LABELLED_CLASSES = 20


def confusion_figure(confusion: npt.NDArray[np.int64], names: list[str], title: str) -> bytes:
    """Rows are true classes, as shares."""
    figure, axes = _figure(width=5.2 if len(names) <= 12 else 6.4)
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    if len(names) <= LABELLED_CLASSES:
        ticks = range(len(names))
        axes.set_xticks(ticks, names, rotation=60, ha="right", fontsize=7)
        axes.set_yticks(ticks, names, fontsize=7)
    if len(names) <= 12:
        for (row, column), share in np.ndenumerate(shares):
            if share >= 0.005:
                colour = "white" if share > 0.5 else "black"
                axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=7, color=colour)
    axes.set(xlabel="predicted", ylabel="true", title=title)
    figure.colorbar(image, ax=axes, fraction=0.046, pad=0.04)
    return _png(figure)


def tsne_figure(features: npt.NDArray[np.floating], labels: npt.NDArray[np.str_], title: str, seed: int = 0) -> bytes:
    """Two-dimensional t-SNE of standardised features, at most 800 rows."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    rows = np.sort(np.random.default_rng(seed).permutation(len(labels))[:TSNE_ROWS])
    x = np.asarray(features[rows], dtype=np.float64)
    x = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 1e-12, x.std(axis=0), 1.0)
    x = PCA(min(50, *x.shape), random_state=seed).fit_transform(x)
    perplexity = min(30.0, max(2.0, (len(x) - 1) / 4))
    points = TSNE(2, perplexity=perplexity, init="pca", random_state=seed, max_iter=500).fit_transform(x)
    figure, axes = _figure(width=5.2)
    names = np.unique(labels)
    colours = _colours(len(names))
    for name, colour in zip(names, colours, strict=True):
        of = labels[rows] == name
        axes.scatter(points[of, 0], points[of, 1], s=9, color=colour, label=str(name), linewidths=0)
    if len(names) <= LABELLED_CLASSES:
        axes.legend(fontsize=6, markerscale=1.5, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    axes.set(xticks=[], yticks=[], title=title)
    return _png(figure)


def line_figure(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, title: str, x_label: str, y_label: str
) -> bytes:
    """Named curves ``(x, y)`` in one plot."""
    figure, axes = _figure(width=5.2, height=3.4)
    for (name, (x, y)), colour in zip(curves.items(), _colours(len(curves)), strict=True):
        axes.plot(np.asarray(x), np.asarray(y), marker="o", markersize=3, label=name, color=colour)
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, frameon=False)
    return _png(figure)


def bar_figure(values: dict[str, dict[str, float]], *, title: str, y_label: str) -> bytes:
    """Groups of bars: {series: {category: value}}."""
    figure, axes = _figure(width=5.2, height=3.4)
    categories = list(next(iter(values.values())))
    width = 0.8 / len(values)
    for k, ((name, of), colour) in enumerate(zip(values.items(), _colours(len(values)), strict=True)):
        axes.bar(np.arange(len(categories)) + k * width, [of[c] for c in categories], width, label=name, color=colour)
    axes.set_xticks(np.arange(len(categories)) + 0.4 - width / 2, categories, fontsize=8)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set(title=title, ylabel=y_label)
    axes.legend(fontsize=7, frameon=False)
    return _png(figure)


def data_uri(png: bytes) -> str:
    """PNG bytes as an image that needs no second file."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _colours(count: int) -> list[Any]:
    import matplotlib

    table = matplotlib.colormaps["tab10" if count <= 10 else "tab20" if count <= 20 else "turbo"]
    return [table(k) if count <= 20 else table(k / max(count - 1, 1)) for k in range(count)]


def _figure(width: float, height: float = 4.4) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # without pyplot: no display, no global state

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
