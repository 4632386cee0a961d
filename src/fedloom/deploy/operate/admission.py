"""Who may take part, as a running server takes it from its folder: registered nodes, and nginx's settings.

``fedloom deploy add``, ``revoke`` and ``renew`` change files in the server's folder, on this machine or before they are
copied to it. The server looks at these files a few times per second. When they change, it registers the nodes of new
sites, unregisters those of revoked ones, and lets nginx read its settings and certificates again, which also ends
connections that are open. ``flower/admitted.json`` says which state of the files is in force.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.deploy import members
from fedloom.deploy.flower.control import SuperLinkControl
from fedloom.deploy.flower.local_socket import connection_errors
from fedloom.deploy.operate.programs import PidFile
from fedloom.deploy.participant_folder import read_json
from fedloom.deploy.settings import ServerSettings, load_server

ADMITTED = "flower/admitted.json"
RETRY = 5.0
"""Seconds before changes that could not be applied are tried again."""
TAKEN = 30.0
"""Seconds in which a running server must have applied a change."""


def register_members(folder: Path, settings: ServerSettings, link: SuperLinkControl) -> int:
    """Let the SuperLink have the nodes of the sites that may take part, and no others; how many there are."""
    keys, nodes = set(members.member_keys(folder, settings)), link.nodes()
    unwanted = [node.number for node in nodes if node.key not in keys]
    for number in unwanted:
        with contextlib.suppress(*connection_errors()):  # Flower fails on one that never connected, and removes it
            link.unregister(number)
    for key in keys - {node.key for node in nodes}:
        link.register(key)
    if unwanted and set(unwanted) & {node.number for node in link.nodes()}:
        raise FedloomError("the SuperLink does not remove the nodes of revoked sites: restart the server.")
    return len(keys)


class Admission:
    """Applies changes of the server's folder to the programs that run.

    Args:
        folder: The server's folder.
        link: Makes the SuperLink's control API.
        reload_proxy: Writes nginx's settings and lets nginx read them; None without a proxy.
        say: Gets lines for the user.
    """

    def __init__(
        self,
        folder: Path,
        link: Callable[[], SuperLinkControl],
        reload_proxy: Callable[[ServerSettings], None] | None,
        say: Callable[[str], None],
    ) -> None:
        self.folder, self.link, self.reload_proxy, self.say = folder, link, reload_proxy, say
        self.stamp = members.stamp(folder)
        self.sites = set(load_server(folder).everyone) - set(members.revoked_sites(folder, load_server(folder)))
        self.passing: tuple[type[Exception], ...] = (FedloomError, *connection_errors())
        self.problem, self.tried_at = "", 0.0
        self._record()

    def apply_changes(self) -> None:
        """Apply the files of the folder if they have changed; what cannot be applied is reported and tried again."""
        now = members.stamp(self.folder)
        if now == self.stamp or (self.problem and time.monotonic() < self.tried_at + RETRY):
            return
        try:
            settings = load_server(self.folder)
            register_members(self.folder, settings, self.link())
            if self.reload_proxy is not None:
                self.reload_proxy(settings)
        except self.passing as why:
            text = f"A change of {self.folder} cannot be applied yet: {str(why).splitlines()[0]}"
            if text != self.problem:
                self.say(text)
            self.problem, self.tried_at = text, time.monotonic()
            return
        sites = set(settings.everyone) - set(members.revoked_sites(self.folder, settings))
        for name in sorted(self.sites - sites):
            self.say(f"Site {name} is revoked: its certificate and its key are refused from now on.")
        for name in sorted(sites - self.sites):
            self.say(f"Site {name} may connect from now on.")
        self.stamp, self.sites, self.problem = now, sites, ""
        self._record()

    def _record(self) -> None:
        (self.folder / ADMITTED).parent.mkdir(exist_ok=True)
        (self.folder / ADMITTED).write_text(json.dumps({"stamp": self.stamp}))


def wait_until_admitted(folder: Path, process: PidFile) -> bool:
    """Wait until a running server has applied the files of its folder; whether one is running.

    Args:
        folder: The server's folder.
        process: The record of the server's process.
    """
    wanted, end = [list(one) for one in members.stamp(folder)], time.monotonic() + TAKEN
    while process.process() is not None:
        if read_json(folder / ADMITTED).get("stamp") == wanted:
            return True
        if time.monotonic() > end:
            raise FedloomError(
                f"the server has not applied the change within {TAKEN:g} s: its window says why; restart it."
            )
        time.sleep(0.05)
    return False
