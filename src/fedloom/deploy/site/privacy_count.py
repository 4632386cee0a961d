"""What a site has spent of its privacy, on its own disk: counted before an answer leaves, over all runs and restarts.

The server counts what arrives. Only the site knows what it sent: an answer that was lost, or was asked for again, has
left too. So the budget is kept here. An answer that would exceed it is not sent, and training for it has cost nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.core.json_text import parse_json
from fedloom.core.privacy import ClientPrivacy
from fedloom.deploy.site.policy import Refused
from fedloom.runs.folder.atomic_write import write_atomic

FILE = "spent.json"


@dataclass
class PrivacyCount:
    """How often a site has used its noise.

    Args:
        path: The file.
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
        """What a site's folder has counted; a damaged file is an error.

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
            uses = {str(name): int(count) for name, count in found.items()}
        except (ValueError, TypeError, AttributeError):
            raise FedloomError(
                f"{path} is damaged, so it is not known what this site has spent of its privacy: restore it."
            ) from None
        return PrivacyCount(path, ledgers, samples, uses)

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
            self.uses = {**self.uses, **after}
            write_atomic(self.path, json.dumps(self.uses).encode())
