"""A messy table: an index, missing cells, categories, dates, semicolons, blank lines, a number to predict."""

from __future__ import annotations

from pathlib import Path

import numpy as np

SITES = ("north", "east", "south")


def write_messy(path: Path, rows: int = 150) -> Path:
    """Write the table; its columns are an index, age, ward, day, site and days."""
    draw = np.random.default_rng(3)
    lines = [";age;ward;day;site;days"]
    for number in range(rows):
        age, ward = draw.integers(20, 90), draw.choice(["surgery", "cardiology", "geriatrics"])
        days = 2 + 0.05 * age + 2 * (ward == "geriatrics") + draw.normal(0, 0.3)
        day = str(np.datetime64("2025-03-01") + int(draw.integers(0, 200)))
        cells = [number, age if number % 9 else "", ward if number % 11 else "NA", day, SITES[number % 3]]
        lines.append(";".join(map(str, [*cells, "" if number % 50 == 49 else f"{days:.2f}"])))
        lines += [""] * (number % 40 == 0)
    path.write_text("\n".join(lines) + "\n")
    return path
