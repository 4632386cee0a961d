"""What a federation looks like, in numbers and as a picture.

The picture has each client's size above and its counts per class below: bubbles for a few dozen clients, a heat map
for more, clients sorted by their largest class there. One hue, from light to dark, which every reader sees alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.federation import Federation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#00306f"


def describe(federation: Federation) -> dict[str, Any]:
    """Sizes and label skew of a federation, ready for JSON.

    ``effective_classes`` is the exponential of a client's label entropy, averaged over clients: 1 is one class per
    client. ``label_distance`` is the mean total variation distance of a client's labels from all training labels.
    """
    sizes = federation.train.sizes.numpy()
    told: dict[str, Any] = {
        "title": federation.title,
        "clients": federation.clients,
        "classes": federation.classes,
        "input_shape": list(federation.columns["x"].shape[1:]),
        "train_samples": int(sizes.sum()),
        "valid_samples": int(federation.valid.sizes.sum()),
        "test_samples": int(federation.test.sizes.sum()),
        "global_test_samples": len(federation.global_test),
        "communal_samples": len(federation.communal),
        "smallest_client": int(sizes.min()),
        "median_client": float(np.median(sizes)),
        "largest_client": int(sizes.max()),
    }
    if federation.columns["y"].dim() == 1:
        counts = federation.counts()
        share = counts / counts.sum(1, keepdims=True)
        entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(1)
        whole = counts.sum(0) / counts.sum()
        told |= {
            "classes_per_client": float((counts > 0).sum(1).mean()),
            "effective_classes": float(np.exp(entropy).mean()),
            "label_entropy_bits": float(entropy.mean() / np.log(2)),
            "label_distance": float(np.abs(share - whole).sum(1).mean() / 2),
        }
    return told


def plot_federation(federation: Federation, path: str | Path | None = None) -> Figure:
    """Draw training samples per client and class; written as PNG (or by the path's ending) when a path is given."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    counts = federation.counts()
    classes = counts.shape[1]
    height = 3.6 if classes == 1 else 5.4 if classes <= 20 else 7.2
    figure = Figure(figsize=(9, height), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    few = federation.clients <= 40 and classes <= 45
    if classes == 1:
        top = figure.subplots()
        order = np.argsort(-counts[:, 0], kind="stable")
    else:
        top, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 3.2])
        largest = counts.argmax(1)
        order = np.arange(len(counts)) if few else np.lexsort((-counts.max(1) / counts.sum(1), largest))
        (_bubbles if few else _heat)(below, counts[order])
        _class_axis(below, federation, classes)
    _sizes(top, counts[order].sum(1))
    last = top if classes == 1 else below
    last.set_xlabel(_client_axis(last, federation, order, few, classes))
    top.set_title(_headline(federation), loc="left", fontsize=10)
    if path is not None:
        figure.savefig(path)
    return figure


def _headline(federation: Federation) -> str:
    told = describe(federation)
    clients = "1 client" if told["clients"] == 1 else f"{told['clients']:,} clients"
    text = f"{told['title'] or 'Federation'}: {clients}, {told['train_samples']:,} training samples"
    if "effective_classes" in told:
        text += f", {told['effective_classes']:.1f} effective classes per client"
    return text


def _sizes(axes: Axes, sizes: np.ndarray) -> None:
    if len(sizes) <= 300:
        axes.bar(np.arange(len(sizes)), sizes, color=INK, width=0.7 if len(sizes) <= 60 else 1.0)
    else:
        axes.fill_between(np.arange(len(sizes)), sizes, step="mid", color=INK, linewidth=0)
    axes.set_ylabel("samples")
    axes.set_ylim(bottom=0)
    axes.set_xlim(-0.7, len(sizes) - 0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _bubbles(axes: Axes, counts: np.ndarray) -> None:
    clients, classes = counts.shape
    room = min(560 / clients, 270 / classes)  # points that one cell has
    client, label = np.nonzero(counts)
    held = counts[client, label]
    axes.scatter(client, label, s=held / counts.max() * (0.95 * room) ** 2, color=INK, alpha=0.75, linewidths=0)
    axes.set_ylim(-0.7, classes - 0.3)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    marks = sorted({int(counts.max()), max(1, int(counts.max()) // 4)}, reverse=True)
    for mark in marks:
        size = mark / counts.max() * (0.95 * room) ** 2
        axes.scatter([], [], s=size, color=INK, alpha=0.75, linewidths=0, label=f"{mark:,}")
    axes.legend(title="samples", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, labelspacing=1.4)


def _heat(axes: Axes, counts: np.ndarray) -> None:
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    shown = np.ma.masked_equal(counts.T, 0)
    top = max(2, int(counts.max()))
    blues = LinearSegmentedColormap.from_list("samples", ["#d9e6f4", "#5f93c9", INK])
    image = axes.imshow(shown, aspect="auto", origin="lower", cmap=blues, norm=LogNorm(1, top), interpolation="nearest")
    bar = axes.figure.colorbar(image, ax=axes, pad=0.01)
    bar.set_label("samples (white: none)")
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000) if tick <= top]
    bar.set_ticks(ticks if len(ticks) < 9 else ticks[::3], labels=None)
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    bar.ax.minorticks_off()


def _class_axis(axes: Axes, federation: Federation, classes: int) -> None:
    axes.set_ylabel("class")
    if classes <= 45:
        names = list(federation.class_names) or [str(label) for label in range(classes)]
        axes.set_yticks(range(classes), names, fontsize=8 if classes <= 20 else 6)


def _client_axis(axes: Axes, federation: Federation, order: np.ndarray, few: bool, classes: int) -> str:
    if federation.clients <= 40:
        names = [federation.name(int(client)) for client in order]
        long = max(len(name) for name in names) > 3
        axes.set_xticks(
            range(len(names)),
            [name if len(name) <= 24 else name[:23] + "…" for name in names],
            fontsize=7,
            rotation=60 if long else 0,
            ha="right" if long else "center",
            rotation_mode="anchor" if long else None,
        )
    else:
        axes.locator_params(axis="x", integer=True)
    if classes == 1:
        return "client, from the largest"
    return "client" if few else "client, sorted by largest class"
