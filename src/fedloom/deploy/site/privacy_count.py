"""What a site has spent of its privacy, on its own disk: counted before an answer leaves, over all runs and restarts.

The server counts what arrives. Only the site knows what it sent: an answer that was lost, or was asked for again, has
left too. So the budget is kept here. An answer that would exceed it is not sent, and training for it has cost nothing.
Uses are counted with what one of them costs: a plan with other noise does not continue the count of an earlier one.
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

FILE = "spent.json"


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
    def read(folder: Path, ledgers: Mapping[str, ClientPrivacy], samples: int) -> PrivacyCount:
        """What a site's folder has counted; a damaged file is an error, and so is one that counts other noise.

        Args:
            folder: The site's folder.
            ledgers: What is counted.
            samples: How many training samples the site has.
        """
        path = folder / FILE
        if not ledgers or not path.exists():
            return PrivacyCount(path, ledgers, samples, {})
        try:
            found = parse_json(path.read_bytes())
            uses = {str(name): int(one["uses"]) for name, one in found.items()}
            before = {str(name): str(one["mechanism"]) for name, one in found.items()}
        except (ValueError, TypeError, AttributeError, KeyError):
            raise FedloomError(
                f"{path} is damaged, so it is not known what this site has spent of its privacy: restore it."
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
                raise Refused("its privacy budget does not last for another answer")
        if after:
            self.uses = after
            found = {name: {"mechanism": text, "uses": after[name]} for name, text in self.mechanisms.items()}
            write_atomic(self.path, json.dumps(found).encode())
