"""A federation as a notebook shows it: how many samples of which class each client trains on, and its other parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedloom.core.html_table import html_table

if TYPE_CHECKING:
    from fedloom.data.federation import Federation

MOST_CLIENTS, MOST_CLASSES = 20, 12
"""With more clients, only the first are shown; with more classes, none of them has a column."""


def federation_html(federation: Federation) -> str:
    """A federation as a part of a page."""
    shown = min(federation.clients, MOST_CLIENTS)
    parts = {"training": federation.train, "validation": federation.valid, "test": federation.test}
    there = {name: part.sizes.tolist() for name, part in parts.items() if len(part.order)}
    counts = federation.counts()
    classes = counts.shape[1] if 1 < counts.shape[1] <= MOST_CLASSES else 0
    names = list(federation.class_names)[:classes] or [str(number) for number in range(classes)]
    rows = [
        [
            federation.name(client),
            *(f"{sizes[client]:,}" for sizes in there.values()),
            *(f"{count:,}" for count in counts[client][:classes]),
        ]
        for client in range(shown)
    ]
    left = federation.clients - shown
    below = [
        f"{left:,} more clients are not shown." if left else "",
        f"The last {classes} columns: training samples per class." if classes else "",
        f"{len(federation.global_test):,} samples are the global test set." if len(federation.global_test) else "",
        *federation.notes,
    ]
    headings = ["client", *there, *names]
    return html_table(headings, rows, caption=repr(federation).strip("<>"), below=below)
