"""``begun.jsonl`` of a private run's folder: a line for every round that began, on disk before anything is drawn.

Noise that was drawn has been used up, whatever becomes of its round: a run that is killed, or whose checkpoint is
damaged, plays the round again with other noise, and both may have been seen. So what a run has spent is counted here,
where lines are only ever added, and not in records and checkpoints, of which a resumed run cuts the last ones off.
A line has the digest of itself and all lines before it. The file is there before the run's config is: a missing one is
lost, and not "nothing spent".
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.files.atomic_write import write_atomic
from fedloom.files.json_text import parse_json
from fedloom.files.limits import most_json, read_limited
from fedloom.runs.folder.manifest import NOTHING, extend_chain
from fedloom.runs.folder.metrics_file import compact_json

BEGUN = "begun.jsonl"


@dataclass
class BegunRounds:
    """The rounds of a private run that began, in the order in which they did.

    Args:
        rounds: Their numbers; one that was played again is there again.
        chain: The digest of all lines.
    """

    path: Path
    rounds: list[int]
    chain: str = NOTHING

    @staticmethod
    def start(folder: Path) -> BegunRounds:
        """A count that begins, on disk.

        Args:
            folder: The run's folder.
        """
        write_atomic(folder / BEGUN, b"")
        return BegunRounds(folder / BEGUN, [])

    @staticmethod
    def read(folder: Path, played: int) -> BegunRounds:
        """What a folder has counted; a file that is lost, cut or changed is refused.

        A last line that a kill left incomplete counts as a round that began.

        Args:
            folder: The run's folder.
            played: The last round that the rest of the folder knows of.
        """
        path = folder / BEGUN
        if not path.is_file():
            raise _lost(f"{path} is missing")
        begun = BegunRounds(path, [])
        *lines, torn = read_limited(path, most_json()).split(b"\n")
        for line in lines:
            begun._take(line)
        if torn:
            lines.append(begun._next_line(begun.rounds[-1] if begun.rounds else 1))
            write_atomic(path, b"".join(line + b"\n" for line in lines))
        begun.check(max(begun.rounds, default=0) >= played)
        return begun

    def check(self, enough: bool) -> None:
        """Refuse a count that lacks rounds.

        Args:
            enough: Whether it has all rounds that the rest of the folder knows of.
        """
        if not enough:
            raise _lost(f"{self.path} has fewer rounds than the run has played")

    def append(self, number: int) -> None:
        """Note that a round begins; when this returns, the disk has it.

        Args:
            number: The round.
        """
        with open(self.path, "ab") as file:
            file.write(self._next_line(number) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _next_line(self, number: int) -> bytes:
        """Count a round, and return its line."""
        self.chain = extend_chain(self.chain, str(number).encode())
        self.rounds.append(number)
        return compact_json({"round": number, "digest": self.chain})

    def _take(self, line: bytes) -> None:
        """Count a round whose line was read."""
        try:
            number = parse_json(line)["round"]
            whole = type(number) is int and self._next_line(number) == line
        except (ValueError, TypeError, KeyError):
            whole = False
        if not whole:
            raise _lost(f"{self.path} has a line that is not what the run wrote")


def _lost(what: str) -> FedloomError:
    return FedloomError(
        f"{what}, so it is not known what this run has spent of its clients' privacy: restore the whole folder from a "
        "copy, or start a new run, whose budget is whole."
    )
