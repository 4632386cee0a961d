"""Texts in a picture: how wide they are, cut to the room there is, in signs that the font has."""

from __future__ import annotations


def inches(text: str, points: float, bold: bool = False) -> float:
    """How wide a text is."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=points, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, False)
    return float(width) / 72


def fitting(text: str, points: float, room: float, bold: bool) -> str:
    """A text cut to the room there is."""
    if inches(text, points, bold) <= room:
        return text
    while text and inches(text + "…", points, bold) > room:
        text = text[:-1]
    return text.rstrip() + "…"


def drawable(text: str) -> str:
    """A text without the signs that the font has not (emoji, mostly)."""
    from matplotlib.font_manager import findfont, get_font

    font = get_font(findfont("DejaVu Sans"))
    return " ".join("".join(c for c in text if font.get_char_index(ord(c))).split())
