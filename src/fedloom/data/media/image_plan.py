"""What is done to images: one size, one number of channels, 8 bits, for the training, for sites and for predictions.

An image is turned as its camera says (EXIF), brought to 8 bits per channel, laid on white where it is transparent,
scaled until it covers the wanted size, and cut around its centre. An image of the wanted size keeps its pixels. Only
the formats below are opened, the first picture of each, and none with more than ``MOST_PIXELS``: a file's header says
how many it has before anything is decoded.
"""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Le

from fedloom.data.media.file_plan import FilePlan, Unreadable, check_file
from fedloom.data.media.media_settings import Images

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
MOST_PIXELS = 50_000_000
"""The most pixels that are decoded of one image: those of a large camera."""
PIXEL, OVERHEAD = 8, 1 << 24
"""The most bytes of a file per pixel, and what it may have besides: colour profiles and the like."""
LONGEST_SIDE, SHORTEST_SIDE = 64, 12
"""Between these are the sides of images whose size the user has not said."""
GREYS = ("1", "L", "LA", "La", "I;16", "I;16L", "I;16B", "I;16N")
TURNED = (5, 6, 7, 8)
"""EXIF's numbers for cameras that were held upright: height and width change places."""
ORIENTATION = 0x0112


class ImageHeader(NamedTuple):
    """What the header of an image says."""

    height: int
    width: int
    is_grey: bool


class ImagePlan(FilePlan):
    """Height, width and channels of all images."""

    images: Literal["resized"] = "resized"
    height: Annotated[int, Ge(1), Le(MOST_PIXELS)]
    width: Annotated[int, Ge(1), Le(MOST_PIXELS)]
    channels: Literal[1, 3]
    reason: str = ""
    """Why this size, as a clause."""

    @staticmethod
    def of_shape(shape: Sequence[int]) -> ImagePlan:
        """The plan for images of a shape.

        Args:
            shape: Channels (1 or 3), height and width.
        """
        return ImagePlan(height=shape[1], width=shape[2], channels=1 if shape[0] == 1 else 3)

    @property
    def what(self) -> str:
        """An image."""
        return "image"

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of the formats that are opened."""
        return IMAGE_ENDINGS

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width."""
        return (self.channels, self.height, self.width)

    @property
    def dtype(self) -> type[np.generic]:
        """Bytes."""
        return np.uint8

    @property
    def usual_model(self) -> str:
        """A small convolutional network, which learns from a few hundred images in a few rounds."""
        return "lenet-small"

    @property
    def lines(self) -> list[str]:
        """The size and the conversion."""
        kind = "grey" if self.channels == 1 else "in three colours"
        return [
            f"every image becomes {self.height}×{self.width} pixels (height×width), {kind}: it is scaled until it "
            f"covers them and cut around its centre{self.reason and f'; {self.reason}'}",
            "images are turned as the camera says (EXIF), transparent parts become white, 16 bits become 8, and of "
            "several pictures in a file the first is read",
        ]

    def read(self, path: Path, where: str) -> np.ndarray:
        """One image as bytes, channels first."""
        from PIL import Image, ImageOps

        with open_image(path, where) as file:
            image = _as_bytes(ImageOps.exif_transpose(file), self.channels, where)
            if image.size != (self.width, self.height):
                image = ImageOps.fit(image, (self.width, self.height), Image.Resampling.BILINEAR)
            pixels = np.asarray(image)
        return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def read_header(path: Path, where: str) -> ImageHeader:
    """What the header of an image says of it, turned as its camera says.

    Args:
        path: The file, of which no pixel is decoded.
        where: What an error calls it.
    """
    from PIL import Image

    with open_image(path, where) as image:
        turned = Image.Image.getexif(image).get(ORIENTATION, 1) in TURNED  # a PNG's own method decodes all of it
        height, width = (image.width, image.height) if turned else (image.height, image.width)
        grey = image.mode in GREYS or (image.mode == "P" and _has_grey_palette(image))
        return ImageHeader(height, width, grey)


def fit_images(headers: Sequence[ImageHeader], settings: Images) -> ImagePlan:
    """The plan for some images: what the user says, or the median size and the colours of the files.

    Args:
        headers: What the headers of all images say.
        settings: What the user says.
    """
    channels = settings.channels or (1 if all(header.is_grey for header in headers) else 3)
    if settings.sides is not None:
        height, width = settings.sides
        return ImagePlan(height=height, width=width, channels=channels)
    median = [int(np.median([header[axis] for header in headers])) for axis in (0, 1)]
    scale = min(1.0, LONGEST_SIDE / max(median))
    height, width = (max(SHORTEST_SIDE, round(side * scale)) for side in median)
    same = len({header[:2] for header in headers}) == 1
    which = "the size of all" if same else "the median size"
    limit = f" ({median[0]}×{median[1]}), with {LONGEST_SIDE} for the longer side" if scale < 1 else ""
    reason = f"{which}{limit}; images.size says another"
    return ImagePlan(height=height, width=width, channels=channels, reason=reason)


@contextmanager
def open_image(path: Path, where: str) -> Iterator[Picture]:
    """An image whose header was read and is not too large; whatever is wrong with it inside is ``Unreadable``."""
    from PIL import Image

    if path.suffix.lower() not in IMAGE_ENDINGS:
        raise Unreadable(f"{where} is no image of a known format ({', '.join(FORMATS)}): convert or remove it.")
    check_file(path, where, OVERHEAD + PIXEL * MOST_PIXELS)
    bomb = f"{where} claims to have more than {MOST_PIXELS:,} pixels, and none may: save it smaller, or remove it."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Pillow finds strange in the facts beside the pixels
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise Unreadable(bomb)
                check_file(path, where, OVERHEAD + PIXEL * image.width * image.height)  # else all is skipped
                yield image
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Unreadable(bomb) from None
    except (
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        KeyError,
        IndexError,
        TypeError,
        struct.error,
        zlib.error,
    ) as error:
        raise Unreadable(f"{where} is not a readable image{_likely(path)}: save it again, or remove it.") from error


def _likely(path: Path) -> str:
    """What a file with the ending of an image seems to be instead, as a clause."""
    try:
        with path.open("rb") as file:
            start = file.read(512)
    except OSError:
        return ""
    if start.lstrip()[:1] in (b"<", b"{"):
        return " (it looks like a web page or a text)"
    return " (it looks like a text)" if start and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start) else ""


def _as_bytes(image: Picture, channels: int, where: str) -> Picture:
    """The image in 8 bits per channel, without transparency."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode in ("I", "F"):
        raise Unreadable(f"{where} has 32 bits per pixel: save it with 8 or 16 bits per channel.")
    if image.has_transparency_data:
        coloured = image.convert("RGBA")
        image = Image.new("RGBA", coloured.size, "white")
        image.alpha_composite(coloured)
    wanted = "L" if channels == 1 else "RGB"
    return image if image.mode == wanted else image.convert(wanted)


def _has_grey_palette(image: Picture) -> bool:
    palette = image.getpalette() or []
    return palette[0::3] == palette[1::3] == palette[2::3]
