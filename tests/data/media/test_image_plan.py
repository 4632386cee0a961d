"""Images of any size and mode become one size, and what is no image is named."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedloom.core.errors import FedloomError
from fedloom.data.media.file_plan import Unreadable
from fedloom.data.media.image_plan import ORIENTATION, ImageHeader, ImagePlan, fit_images, read_header
from fedloom.data.media.media_settings import Images

COLOUR = ImagePlan(height=8, width=8, channels=3)
GREY = ImagePlan(height=8, width=8, channels=1)


def save(path: Path, pixels: np.ndarray, mode: str | None = None, **options: object) -> Path:
    image = Image.fromarray(pixels)
    (image if mode is None else image.convert(mode)).save(path, **options)
    return path


def read(plan: ImagePlan, path: Path) -> np.ndarray:
    return plan.read(path, path.name)


def test_an_image_of_the_right_size_keeps_its_pixels(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    for ending in ("png", "bmp", "tif"):
        assert np.array_equal(read(COLOUR, save(tmp_path / f"a.{ending}", pixels)), pixels.transpose(2, 0, 1))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
@pytest.mark.parametrize("plan", [COLOUR, GREY])
def test_white_stays_white_in_every_mode(mode, plan, tmp_path):
    if mode == "I;16":
        path = save(tmp_path / "a.png", np.full((20, 30), 65535, np.uint16))
    else:
        ending = "tif" if mode == "CMYK" else "png"
        path = save(tmp_path / f"a.{ending}", np.full((20, 30, 3), 255, np.uint8), mode)
    found = read(plan, path)
    assert found.shape == plan.shape
    assert found.dtype == np.uint8
    assert (found == 255).all()


def test_transparent_parts_become_white(tmp_path):
    pixels = np.zeros((8, 8, 4), np.uint8)
    pixels[:4, :, 3] = 255
    found = read(GREY, save(tmp_path / "a.png", pixels))[0]
    assert (found[:4] == 0).all()
    assert (found[4:] == 255).all()


def test_sixteen_bits_become_the_upper_eight(tmp_path):
    pixels = (np.arange(64).reshape(8, 8) * 1000).astype(np.uint16)
    assert np.array_equal(read(GREY, save(tmp_path / "a.png", pixels))[0], pixels // 256)


@pytest.mark.parametrize(("number", "turn"), [(1, 0), (3, 2), (6, 3), (8, 1)])
def test_an_image_is_turned_as_its_camera_says(number, turn, tmp_path):
    pixels = np.zeros((8, 8), np.uint8)
    pixels[:4, :4] = 255
    exif = Image.Exif()
    exif[ORIENTATION] = number
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(read(GREY, tmp_path / "a.png")[0], np.rot90(pixels, turn))


def test_a_header_says_the_size_after_the_turn(tmp_path):
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    Image.new("L", (30, 20)).save(tmp_path / "a.jpg", exif=exif)
    assert read_header(tmp_path / "a.jpg", "a.jpg") == ImageHeader(30, 20, True)


def test_a_wide_image_is_cut_around_its_centre(tmp_path):
    pixels = np.zeros((16, 48), np.uint8)
    pixels[:, 16:32] = 255
    assert (read(GREY, save(tmp_path / "a.png", pixels))[0][:, 1:-1] == 255).all()


def test_of_several_pictures_the_first_is_read(tmp_path):
    white, black = Image.new("L", (8, 8), 255), Image.new("L", (8, 8), 0)
    for ending in ("gif", "tif"):
        white.save(tmp_path / f"a.{ending}", save_all=True, append_images=[black])
        assert (read(GREY, tmp_path / f"a.{ending}") == 255).all()


def test_without_a_wish_the_median_size_counts_up_to_64():
    small = [ImageHeader(20, 30, True), ImageHeader(24, 30, True), ImageHeader(90, 30, False)]
    plan = fit_images(small, Images())
    assert plan.shape == (3, 24, 30)
    large = fit_images([ImageHeader(480, 640, True)] * 2, Images())
    assert large.shape == (1, 48, 64)
    assert "the size of all (480×640), with 64 for the longer side" in large.lines[0]
    assert fit_images(small, Images(size=[5, 9], channels=1)).shape == (1, 5, 9)
    assert fit_images(small, Images(size=7)).shape == (3, 7, 7)
    with pytest.raises(FedloomError, match=r"images: size=\[1, 2, 3\]: give one number, or height and width"):
        Images(size=[1, 2, 3])


def bomb(path: Path, width: int, height: int) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


@pytest.mark.parametrize(("width", "height"), [(100_000, 100_000), (8_000, 8_000), (12_000, 8_000)])
def test_a_decompression_bomb_is_refused_by_its_header(width, height, tmp_path, recwarn):
    bomb(tmp_path / "a.png", width, height)
    for reader in (read_header, COLOUR.read):
        with pytest.raises(Unreadable, match=r"^a.png claims to have more than 50,000,000 pixels, and none may: save"):
            reader(tmp_path / "a.png", "a.png")
    assert not recwarn.list


def write_bad(path: Path, case: str) -> Path:
    whole = save(path, np.random.default_rng(0).integers(0, 256, (30, 30, 3), np.uint8)).read_bytes()
    path.unlink()
    if case == "a link to nothing":
        path.symlink_to(path.parent / "nowhere.png")
    elif case == "a folder":
        path.mkdir()
    elif case == "a pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(
            {"nothing": b"", "a text": b"hello", "a page": b"<html>", "half": whole[: len(whole) // 2]}[case]
        )
    return path


@pytest.mark.parametrize(
    ("case", "message"),
    {
        "nothing": "is empty: save it again, or remove it",
        "a text": "is not a readable image (it looks like a text): save it again, or remove it",
        "a page": "is not a readable image (it looks like a web page or a text)",
        "half": "is not a readable image: save it again, or remove it",
        "a link to nothing": "cannot be read (No such file or directory): correct its path, or remove it",
        "a folder": "is not a file: remove it",
        "a pipe": "is not a file: remove it",
    }.items(),
)
def test_what_is_no_image_is_named(case, message, tmp_path):
    path = write_bad(tmp_path / "a.png", case)
    with pytest.raises(Unreadable) as caught:
        read(COLOUR, path)
    assert f"a.png {message}" in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_named(tmp_path):
    save(tmp_path / "a.png", np.zeros((8, 8), np.uint8)).chmod(0)
    with pytest.raises(Unreadable, match=r"a.png may not be read by you: change its permissions"):
        read(COLOUR, tmp_path / "a.png")


def test_any_bytes_are_an_image_or_unreadable(tmp_path):
    """Damage in any place ends in a sentence, and in nothing else."""
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (9, 9, 3), np.uint8)
    for ending in ("png", "jpg", "bmp", "gif", "tif", "webp"):
        whole = bytearray(save(tmp_path / f"whole.{ending}", pixels).read_bytes())
        for number in range(40):
            damaged = whole.copy()
            for place in draw.integers(0, len(whole), 4):
                damaged[place] = draw.integers(256)
            path = tmp_path / f"{number}.{ending}"
            path.write_bytes(damaged[: draw.integers(1, len(whole))] if number % 3 == 0 else damaged)
            try:
                assert read(COLOUR, path).shape == (3, 8, 8)
            except Unreadable as error:
                assert path.name in str(error)  # noqa: PT017
