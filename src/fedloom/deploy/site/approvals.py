"""Which runs a site has begun with the approver's signature, on the site's disk.

Where the authority vouches for an approver (``approver.pem`` in the site's folder, which ``signature.json`` covers), a
new run begins at a site only with an approval of this plan, these sites and this run. So an operator who changes the
program on the server cannot begin one alone. Which run is going on is what this file says, and where there is none what
``asked.json`` says: its requests need no further approval. Every other run is a new one, and a run that another one
has followed does not come back, whatever is signed for it.

A site cannot see the server's settings (``deploy.toml``) nor who else takes part: what an approval says of these, the
command and the server half check.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.deploy import audit_log
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.provision.run_approval import has_approver, is_signed
from fedloom.deploy.site.policy import Refused
from fedloom.deploy.site.request_count import RequestCount
from fedloom.files.atomic_write import write_atomic
from fedloom.files.json_text import parse_json

FILE = "approved.json"


@dataclass
class RunApprovals:
    """The approved runs that a site has begun.

    Args:
        folder: The site's folder.
        blueprint: The plan that an approval must be of.
        runs: The names of these runs; the last one is going on.
    """

    folder: Path
    blueprint: Blueprint
    runs: list[str]

    @staticmethod
    def read(folder: Path, blueprint: Blueprint) -> RunApprovals:
        """What a site's folder has; a damaged file is an error, since an approval is for one run.

        Args:
            folder: The site's folder.
            blueprint: The plan that an approval must be of.
        """
        path = folder / FILE
        if not path.exists():
            return RunApprovals(folder, blueprint, [])
        try:
            runs = parse_json(path.read_bytes())
            if not isinstance(runs, list) or not all(isinstance(one, str) for one in runs):
                raise ValueError("not what was written")
        except (ValueError, OSError):
            raise FedloomError(
                f"{path} is damaged, so it is not known which approved runs this site has begun: restore it."
            ) from None
        return RunApprovals(folder, blueprint, runs)

    def admit(self, run: str, approval: Mapping[str, Any], count: RequestCount) -> bool:
        """Refuse a request of a run that nobody approved; whether it begins a run, which is yet to be noted.

        Args:
            run: The name of the run that a request belongs to.
            approval: What came with the request.
            count: What the server has asked so far.
        """
        if run == self._going_on(count) or not has_approver(self.folder):
            return False
        if run in (*self.runs, *count.past):
            raise Refused("its run is over, since a later one has begun, and an approval is for one run")
        if not approval:
            raise Refused("a new run of this deployment needs its approver, and the server has sent no approval of it")
        asked = approval.get("request")
        if not isinstance(asked, dict) or not is_signed(self.folder, approval):
            raise Refused("what came as the approval of a new run is not signed by the approver of this deployment")
        if f"{asked.get('plan')}-{asked.get('number')}" != run:
            raise Refused("it begins a new run, and the approval that came with it is for another one")
        if (asked.get("rounds"), _plain(asked.get("label"))) != self._described():
            raise Refused("the approver was shown another plan than the one in this site's folder")
        sites, known = asked.get("sites"), list(self.blueprint.sites)
        if not isinstance(sites, list) or sites[: len(known)] != known:  # sites that came later are behind these
            raise Refused("the approval that came with the new run is for other sites")
        return True

    def note(self, run: str, approval: Mapping[str, Any], count: RequestCount) -> None:
        """Note that an approved run begins, before anything is done for it.

        Args:
            run: The name under which it is counted from now on.
            approval: What came with its request.
            count: What the server has asked so far, with this request.
        """
        said = {name: str(approval.get(name)) for name in ("by", "at")}
        audit_log.append(self.folder, "run approved", number=run.rpartition("-")[2], **said)
        runs = [*(one for one in count.past if one not in self.runs), *self.runs, run]
        write_atomic(self.folder / FILE, json.dumps(runs).encode())
        self.runs = runs  # only after the disk has it

    def _going_on(self, count: RequestCount) -> str:
        return self.runs[-1] if self.runs else count.run

    def _described(self) -> tuple[int, str]:
        return self.blueprint.config.rounds, _plain(self.blueprint.label)


def _plain(label: object) -> str:
    """A run's name without the folder of a user's file, which differs from one participant to the other."""
    return str(label).rpartition("/")[2]
