"""A federation described: in numbers, and as a figure of its clients' samples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.core.inputs import input_shapes
from fedloom.core.targets import target_kind
from fedloom.data.federation import Federation
from fedloom.plotting.partition import samples_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 130


def describe(federation: Federation) -> dict[str, Any]:
    """Sizes and label skew of a federation, ready for JSON.

    ``effective_classes`` is the exponential of a client's label entropy, averaged over clients: 1 is one class per
    client. ``label_distance`` is the mean total variation distance of a client's labels from all training labels.
    """
    sizes, shape = federation.train.sizes.numpy(), input_shapes(federation.columns)
    description: dict[str, Any] = {
        "title": federation.title,
        "clients": federation.clients,
        "target": target_kind(federation.columns["y"]),
        "classes": federation.classes,
        "input_shape": {name: list(x) for name, x in shape.items()} if isinstance(shape, dict) else list(shape),
        "train_samples": int(sizes.sum()),
        "valid_samples": int(federation.valid.sizes.sum()),
        "test_samples": int(federation.test.sizes.sum()),
        "global_test_samples": len(federation.global_test),
        "communal_samples": len(federation.communal),
        "smallest_client": int(sizes.min()),
        "median_client": float(np.median(sizes)),
        "largest_client": int(sizes.max()),
    }
    if target_kind(federation.columns["y"]) == "classes":
        counts = federation.counts()
        share = counts / counts.sum(1, keepdims=True)
        entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(1)
        whole = counts.sum(0) / counts.sum()
        description |= {
            "classes_per_client": float((counts > 0).sum(1).mean()),
            "effective_classes": float(np.exp(entropy).mean()),
            "label_entropy_bits": float(entropy.mean() / np.log(2)),
            "label_distance": float(np.abs(share - whole).sum(1).mean() / 2),
        }
    return description


def plot_federation(federation: Federation, path: str | Path | None = None) -> Figure:
    """Draw training samples per client and class.

    Args:
        federation: The federation to draw.
        path: A file to write, whose ending says the format (PNG if it has none).
    """
    names = [federation.name(client) for client in range(federation.clients)]
    counts = federation.counts().astype(np.float64)
    figure = samples_figure(counts, _headline(federation), client_names=names, class_names=federation.class_names)
    if path is not None:
        figure.savefig(path, dpi=DPI)
    return figure


def _headline(federation: Federation) -> str:
    description = describe(federation)
    clients = "1 client" if description["clients"] == 1 else f"{description['clients']:,} clients"
    text = f"{description['title'] or 'Federation'}: {clients}, {description['train_samples']:,} training samples"
    if "effective_classes" in description:
        text += f", {description['effective_classes']:.1f} effective classes per client"
    return text
