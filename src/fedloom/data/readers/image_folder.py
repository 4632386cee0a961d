"""A folder of images as a site's data: a sub-folder per class, PNG or JPEG files in it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.deploy.protocol.schema import Schema

ENDINGS = (".png", ".jpg", ".jpeg")
_PLAIN = {"1": "L", "P": "RGB"}
"""What images of two colours and of a palette are read as."""


def read_pictures(folder: Path, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Images (bytes, or fractions of 255 where the task takes floats) and the class of each, in the files' order.

    Sub-folders are called as the schema's classes, or by their numbers where these have no names.
    """
    if len(schema.shape) != 3:
        raise FedloomError(f"{folder.name} is a folder, and the task takes inputs of shape {schema.shape}, not images.")
    names = schema.class_names or tuple(str(number) for number in range(schema.classes))
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not inside:
        raise FedloomError(f"{folder.name} has no sub-folders: put the images of each class in a folder of its own.")
    images, labels = [], []
    for kind in inside:
        if kind.name not in names:
            shown = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
            raise FedloomError(f"the sub-folder '{kind.name}' of {folder.name} is no class of the task ({shown}).")
        for path in sorted(path for path in kind.iterdir() if not path.name.startswith(".")):
            images.append(read_picture(path, f"{folder.name}/{kind.name}/{path.name}", schema))
            labels.append(names.index(kind.name))
    if len(images) < 2:
        raise FedloomError(f"{folder.name} has {len(images)} images: give at least two.")
    x = np.stack(images)
    return (x / np.float32(255) if schema.input_type.is_floating_point else x), np.array(labels, dtype=np.int64)


def read_picture(path: Path, where: str, schema: Schema) -> np.ndarray:
    """One image, channels first; its size is looked at before it is decoded."""
    from PIL import Image

    channels, height, width = schema.shape
    if path.suffix.lower() not in ENDINGS:
        raise FedloomError(f"{where} is no PNG or JPEG image: take it out, or convert it.")
    try:
        with Image.open(path, formats=("PNG", "JPEG")) as image:
            if image.size != (width, height):
                raise FedloomError(
                    f"{where} is {image.width}×{image.height} pixels, and the task's images are {width}×{height}: "
                    "scale it."
                )
            pixels = np.asarray(image.convert(_PLAIN.get(image.mode, image.mode)))
    except (
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        struct.error,
        zlib.error,
        Image.DecompressionBombError,
    ) as error:
        raise FedloomError(f"{where} is not a readable image: make it again, or take it out.") from error
    if pixels.dtype != np.uint8:
        raise FedloomError(f"{where} has more than 8 bits per channel: save it with 8.")
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    if len(pixels) != channels:
        raise FedloomError(
            f"{where} has {len(pixels)} channel{'s' * (len(pixels) > 1)}, and the task's images have {channels}: "
            "convert it."
        )
    return pixels
