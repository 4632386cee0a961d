"""Rebuilt samples beside their originals, as a page shows them: images as PNG inside the page, rows as tables."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from fedloom.audits.of_run.probes.probe import Sample

CHANNELS = {1: 0, 3: 2}
"""The colour types of PNG for so many channels."""
MOST_VALUES = 8
"""How many values of a row are shown."""


def pairs(samples: Sequence[Sample], low: float, high: float) -> Iterator[str]:
    """Some samples, each above what an attack made of it.

    Args:
        low: The value that is black.
        high: The value that is white.
    """
    if all(np.ndim(one.original) == 3 and len(one.original) in CHANNELS for one in samples):
        yield '<div class="pairs"><div class="key"><span>training data</span><span>rebuilt</span></div>'
        for one in samples:
            images = "".join(
                f'<img alt="{what}" src="{png(np.asarray(values), low, high)}">'
                for what, values in (("original", one.original), ("rebuilt", one.rebuilt))
            )
            yield f'<figure class="pair">{images}{escape(one.words)}</figure>'
        yield "</div>"
        return
    yield '<div class="wide"><table class="values">'
    for one in samples:
        for what, values in (("training data", one.original), (f"rebuilt, {one.words}", one.rebuilt)):
            numbers = np.asarray(values, dtype=np.float64).ravel()
            more = ["…"] if len(numbers) > MOST_VALUES else []
            cells = [what, *(f"{value:.3g}" for value in numbers[:MOST_VALUES]), *more]
            yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</table></div>"


def png(image: NDArray[np.float64], low: float, high: float) -> str:
    """An image as a data URL.

    Args:
        image: Channels×height×width, of one channel or three.
        low: The value that is black.
        high: The value that is white.
    """
    shares = (np.asarray(image, dtype=np.float64) - low) / max(high - low, 1e-12)
    pixels = (255 * np.nan_to_num(shares).clip(0, 1)).round().astype(np.uint8).transpose(1, 2, 0)
    height, width, channels = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)  # each line says its filter: none
    head = struct.pack(">IIBBBBB", width, height, 8, CHANNELS[channels], 0, 0, 0)
    file = (
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(lines, 9)) + _chunk(b"IEND", b"")
    )
    return f"data:image/png;base64,{base64.b64encode(file).decode()}"


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
