"""What a site has spent of its privacy, on its own disk: counted before an answer leaves, over all runs and restarts.

The server counts what arrives. Only the site knows what it sent: an answer that was lost, or was asked for again, has
left too. So the budget is kept here. An answer that would exceed it is not sent, and training for it has cost nothing.
Uses are counted with what one of them costs: a plan with other noise does not continue the count of an earlier one.
The file has a digest, and it is there before the site is asked for the first time: a missing one is not "nothing spent"
where the site has been asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.core.privacy import ClientPrivacy
from fedloom.deploy.site.policy import Refused
from fedloom.files.atomic_write import write_atomic
from fedloom.files.json_text import parse_json
from fedloom.files.limits import SETTINGS, read_limited
from fedloom.runs.folder.manifest import digest_of

FILE = "spent.json"
REMEDY = "restore it from a copy, or take part with a new folder, whose budget is whole, if everybody agrees to that."


class BudgetSpent(Refused):
    """An answer that the site's privacy budget does not allow, now or ever."""


@dataclass
class PrivacyCount:
    """How often a site has used its noise.

    Args:
        ledgers: What is counted, by the kind of noise; nothing in a run without.
        samples: How many training samples the site has.
        uses: How often each kind of noise was used.
    """

    path: Path
    ledgers: Mapping[str, ClientPrivacy]
    samples: int
    uses: dict[str, int]

    @staticmethod
    def read(folder: Path, ledgers: Mapping[str, ClientPrivacy], samples: int, asked: bool = False) -> PrivacyCount:
        """What a site's folder has counted; a damaged file is an error, and so are a lost one and one of other noise.

        Args:
            folder: The site's folder.
            ledgers: What is counted.
            samples: How many training samples the site has.
            asked: Whether the site was asked for anything in this plan, so that it has counted.
        """
        path = folder / FILE
        if not ledgers:
            return PrivacyCount(path, ledgers, samples, {})
        if not path.exists():
            return _new_count(PrivacyCount(path, ledgers, samples, {}), asked)
        try:
            found = parse_json(read_limited(path, SETTINGS))
            if found.pop("digest") != digest_of(_canonical(found)):
                raise ValueError("not what was written")
            uses = {str(name): int(one["uses"]) for name, one in found.items()}
            before = {str(name): str(one["mechanism"]) for name, one in found.items()}
        except (ValueError, TypeError, AttributeError, KeyError):
            raise FedloomError(
                f"{path} is damaged (its digest differs), so it is not known what this site has spent of its privacy: "
                f"{REMEDY}"
            ) from None
        count = PrivacyCount(path, ledgers, samples, uses)
        if before and before != count.mechanisms:
            raise FedloomError(
                f"{path} counts what this site spent with {', '.join(before.values())}, and the plan has "
                f"{', '.join(count.mechanisms.values())}, whose uses cost a different epsilon: continue with the "
                "earlier plan, or use a new folder, whose budget is whole."
            )
        return count

    @property
    def mechanisms(self) -> dict[str, str]:
        """What the cost of a use depends on, by the kind of noise."""
        return {name: ledger.mechanism(self.samples) for name, ledger in self.ledgers.items()}

    def spend(self, steps: int) -> None:
        """Count an answer before it leaves; one that would exceed the budget is refused.

        Args:
            steps: How many gradient steps it took.
        """
        after = {name: self.uses.get(name, 0) + ledger.uses(steps) for name, ledger in self.ledgers.items()}
        for name, ledger in self.ledgers.items():
            if ledger.over_budget([self.samples], [after[name]]):
                raise BudgetSpent("its privacy budget does not last for another answer")
        if after:
            self.uses = after
            self.write()

    def write(self) -> None:
        """Write how often each kind of noise was used, with what a use costs."""
        found: dict[str, object] = {
            name: {"mechanism": text, "uses": self.uses.get(name, 0)} for name, text in self.mechanisms.items()
        }
        write_atomic(self.path, _canonical(found | {"digest": digest_of(_canonical(found))}))


def _new_count(count: PrivacyCount, asked: bool) -> PrivacyCount:
    """A count that begins, written before anything is spent; it is refused where there must have been one."""
    if asked:
        raise FedloomError(
            f"{count.path} is missing, although this site was asked before, so it is not known what it has spent of "
            f"its privacy: {REMEDY}"
        )
    try:
        count.write()
    except OSError as error:
        raise FedloomError(f"{count.path} cannot be written ({error.strerror}): make room for it.") from None
    return count


def _canonical(values: Mapping[str, object]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()
