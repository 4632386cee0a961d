"""A folder of images: a sub-folder per class, with PNG or JPEG files in it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.files.limits import check_size

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg")
PIXEL, OVERHEAD = 8, 1 << 24
"""The most bytes of a file per number of its image, and what it may have besides: colour profiles and the like."""
_MODES = {"1": "L", "P": "RGB"}
"""The mode that black-and-white images and images with a palette are converted to."""


def read_image_folder(
    folder: Path, shape: tuple[int, ...], class_names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The images of a folder as bytes, and the class number of each, in the order of sub-folders and files.

    Args:
        folder: A folder with one sub-folder per class.
        shape: Channels, height and width that every image must have.
        class_names: The names that sub-folders may have; a class's number is its position here.
    """
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not inside:
        raise FedloomError(f"{folder.name} has no sub-folders: put the images of each class into a sub-folder.")
    images, labels = [], []
    for kind in inside:
        if kind.name not in class_names:
            shown = ", ".join(class_names[:12]) + (" …" if len(class_names) > 12 else "")
            raise FedloomError(f"the sub-folder '{kind.name}' of {folder.name} is not a class of the task ({shown}).")
        for path in sorted(path for path in kind.iterdir() if not path.name.startswith(".")):
            images.append(read_image(path, f"{folder.name}/{kind.name}/{path.name}", shape))
            labels.append(class_names.index(kind.name))
    if len(images) < 2:
        raise FedloomError(f"{folder.name} has {len(images)} images: give at least two.")
    return np.stack(images), np.array(labels, dtype=np.int64)


def read_image(path: Path, where: str, shape: tuple[int, ...]) -> np.ndarray:
    """One image as bytes, channels first; its size is checked before it is decoded.

    Args:
        path: A PNG or JPEG file.
        where: What an error calls the file.
        shape: Channels, height and width that the image must have.
    """
    from PIL import Image

    channels, height, width = shape
    if path.suffix.lower() not in IMAGE_ENDINGS:
        raise FedloomError(f"{where} is not a PNG or JPEG image: convert or remove it.")
    check_size(path, OVERHEAD + PIXEL * channels * height * width, where)  # else a reader would skip through all of it
    try:
        with Image.open(path, formats=("PNG", "JPEG")) as image:
            if image.size != (width, height):
                raise FedloomError(
                    f"{where} is {image.width}×{image.height} pixels, but the task's images are {width}×{height}: "
                    "resize it."
                )
            pixels = np.asarray(image.convert(_MODES.get(image.mode, image.mode)))
    except (
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        struct.error,
        zlib.error,
        Image.DecompressionBombError,
    ) as error:
        raise FedloomError(f"{where} is not a readable image: save it again, or remove it.") from error
    if pixels.dtype != np.uint8:
        raise FedloomError(f"{where} has more than 8 bits per channel: save it with 8 bits.")
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    if len(pixels) != channels:
        raise FedloomError(
            f"{where} has {len(pixels)} channel{'s' * (len(pixels) > 1)}, but the task's images have {channels}: "
            "convert it."
        )
    return pixels
