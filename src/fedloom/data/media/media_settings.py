"""What a user may say of images and sounds; what is not said follows from the files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from fedloom.core.errors import FedloomError
from fedloom.core.settings import check_settings

Side = Annotated[int, Ge(1), Le(4096)]


@dataclass(frozen=True)
class Images:
    """What images become (``task.images``).

    Args:
        size: Height and width in pixels: one number for both, or two; by default the median size, at most 64.
        channels: 1 for grey, 3 for colours; by default 3 if an image has colours.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    size: Side | list[Side] | None = None
    channels: Literal[1, 3] | None = None

    def __post_init__(self) -> None:
        check_settings(self, "images")
        if isinstance(self.size, list) and len(self.size) != 2:
            raise FedloomError(f"images: size={self.size}: give one number, or height and width.")

    @property
    def sides(self) -> tuple[int, int] | None:
        """Height and width; None if the files say."""
        if self.size is None:
            return None
        return (self.size, self.size) if isinstance(self.size, int) else (self.size[0], self.size[1])


@dataclass(frozen=True)
class Sounds:
    """What sounds become (``task.sounds``).

    Args:
        rate: Samples per second; by default the files' lowest, at most 16000.
        seconds: How long every sound is then; by default as long as nine of ten files, at most 10.
        mels: The bands of a log-mel spectrogram; 0 keeps the signal itself.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    rate: Annotated[int, Ge(1000), Le(384_000)] | None = None
    seconds: Annotated[float, Ge(0.2), Le(600)] | None = None
    mels: Annotated[int, Ge(0), Le(256)] = 40

    def __post_init__(self) -> None:
        check_settings(self, "sounds")
