"""Whether the tables of docs/reproduce.md come out of this commit: a random tenth of the studies is run again.

A heading there names its study (``### Title (`gala-exits --seeds 10`)``), and its tables stand below it. Each number is
compared with the one that the study gives now: equal, within its printed deviation (processors round differently, and
training amplifies that), or different. It ends with 1 if some number is different, or is not given any more.

    python bench/printed_numbers.py                    # a tenth of the studies with few runs
    python bench/printed_numbers.py gala-exits         # this one
"""

from __future__ import annotations

import argparse
import random
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import StudyRequest, run_study

PAGE = Path(__file__).parents[1] / "docs/reproduce.md"
HEADING = re.compile(r"^###? .*\(`([a-z0-9-]+)((?: --[a-z]+ \S+)*)`\)")
NUMBER = re.compile(r"^(-?[\d,]*\.?\d+)(?: ± ([\d.]+))?$")
MOST_RUNS = 70
"""Studies with more runs are not run again unless they are named."""


@dataclass(frozen=True)
class PrintedStudy:
    """A study as a page prints it.

    Args:
        name: The study.
        options: Its options, as the command line has them.
        rows: The rows of its tables, each with the table's columns in front.
    """

    name: str
    options: dict[str, str]
    rows: dict[tuple[str, ...], dict[str, str]]

    @property
    def request(self) -> StudyRequest:
        """How it is run, in a new folder."""
        seeds = int(self.options.get("seeds", STUDIES[self.name].seeds))
        return StudyRequest(seeds, Path(tempfile.mkdtemp()) / self.name, data=self.options.get("data", ""))

    @property
    def runs(self) -> int:
        """About how many runs it has."""
        request = self.request
        return len(STUDIES[self.name].members(request)) * request.seeds


def table_rows(lines: Sequence[str]) -> dict[tuple[str, ...], dict[str, str]]:
    """The rows of the Markdown tables among some lines: cells by column, by the columns and the row's first cell."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    columns: list[str] = []
    for line in lines:
        if not line.startswith("|"):
            columns = []
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not columns:
            columns = cells
        elif not set("".join(cells)) <= set("-: "):
            rows[(*columns, cells[0])] = dict(zip(columns[1:], cells[1:], strict=False))
    return rows


def printed_studies(text: str) -> Iterator[PrintedStudy]:
    """The studies of a page, with the tables between a study's heading and the next heading.

    Args:
        text: The page.
    """
    lines = text.splitlines()
    for start, line in enumerate(lines):
        found = HEADING.match(line)
        if found:
            end = next((n for n in range(start + 1, len(lines)) if re.match("##", lines[n])), len(lines))
            words = shlex.split(found[2])
            options = {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}
            yield PrintedStudy(found[1], options, table_rows(lines[start:end]))


def compare_cells(printed: str, now: str | None) -> str:
    """How a printed cell and the present one compare: ``equal``, ``within`` its deviation, or ``different``."""
    if printed == now:
        return "equal"
    before, after = NUMBER.match(printed), NUMBER.match(now or "")
    if not before or not after:
        return "different"
    gap = abs(float(before[1].replace(",", "")) - float(after[1].replace(",", "")))
    return "within" if before[2] and gap <= float(before[2]) else "different"


def check(study: PrintedStudy) -> int:
    """Run a study again and print what differs; returns how many cells are different."""
    outcome = run_study(STUDIES[study.name], study.request)
    now = table_rows(outcome.to_markdown().splitlines())
    counts = {"equal": 0, "within": 0, "different": 0}
    for key, cells in study.rows.items():
        for column, printed in cells.items():
            found = now.get(key, {}).get(column)
            how = compare_cells(printed, found)
            counts[how] += 1
            if how != "equal":
                print(f"  {how}: {key[-1]}, {column}: printed {printed}, now {found}")
    print(f"{study.name} {study.options}: {counts}", flush=True)
    return counts["different"]


def main() -> None:
    """Check the named studies, or a random tenth of those with few runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="studies to run again (default: a tenth of them)")
    parser.add_argument("--seed", type=int, help="which tenth (default: another one each time)")
    options = parser.parse_args()
    studies = list(printed_studies(PAGE.read_text("utf-8")))
    chosen = [one for one in studies if one.name in options.names]
    if not options.names:
        cheap = [one for one in studies if one.runs <= MOST_RUNS]
        chosen = random.Random(options.seed).sample(cheap, max(1, round(len(cheap) / 10)))
    sys.exit(1 if sum(map(check, chosen)) or not chosen else 0)


if __name__ == "__main__":
    main()
