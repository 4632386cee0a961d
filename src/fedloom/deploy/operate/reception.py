"""What the server tells its sites and Flower does not: the time, renewed certificates, and why a site is refused.

Flower tells a site that it may not join, and not why. So a site also asks here, before it joins and every few seconds
after that, through nginx, which knows by the site's certificate who asks. What sites tell is in ``flower/sites.json``,
for ``fedloom deploy status``.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from fedloom.deploy import audit_log
from fedloom.deploy.members import revocations, revoked_sites, site_serial
from fedloom.deploy.participant_folder import KEYS, REFUSED, RUN, read_json
from fedloom.deploy.protocol.printable import printable_line
from fedloom.deploy.protocol.versions import Versions
from fedloom.deploy.provision.proxy import RECEPTION, RECEPTION_PATH
from fedloom.deploy.provision.signature import RENEWED, RENEWED_FILES, fits_signature
from fedloom.deploy.settings import load_server
from fedloom.files.atomic_write import write_atomic, write_private
from fedloom.files.json_text import parse_json
from fedloom.web.access import Access
from fedloom.web.page_server import JSON, PageRequest, PageServer, RequestError

VISITS = "flower/sites.json"
CLOCK_DIFFERS = 30.0
"""Seconds by which a site's clock may differ without a word; Flower itself tolerates five of a clock that is ahead."""
LEASE = 30.0
"""Seconds for which a machine that has asked counts as the site's; another one with the same keys is refused."""
LARGEST = 1 << 16
"""Most bytes of a site's question."""


@dataclass(frozen=True)
class Visit:
    """What a site said last: when, from which address and machine, its versions, and how far its clock is ahead."""

    seen: float
    address: str
    machine: str
    fedloom: str
    flower: str
    torch: str
    clock_ahead: float
    protocol: int = 0
    refused: str = ""
    differs: str = ""
    """How its versions differ from the server's, if it may take part with them."""

    @property
    def versions(self) -> Versions:
        """What of its versions must fit the server's."""
        return Versions(self.fedloom, self.protocol, self.torch)


class Reception:
    """Answers the questions of sites."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say
        self.visits: dict[str, Visit] = {}
        self.copies: dict[str, str] = {}
        self.lock = threading.Lock()

    def answer(self, site: str, serial: str, address: str, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer to a site's question.

        Args:
            site: The name in its certificate.
            serial: The serial number of its certificate.
            address: The address from which it asks.
            asked: What it tells about itself.
        """
        with self.lock:
            now = time.time()
            facts = {
                name: printable_line(str(asked.get(name, "")), 100)
                for name in ("machine", "fedloom", "flower", "torch")
            }
            ahead = asked.get("time")
            said = Versions.said(asked.get("fedloom", ""), asked.get("protocol"), asked.get("torch", ""))
            clock_ahead = ahead - now if isinstance(ahead, float) else 0.0
            visit = Visit(now, address, **facts, clock_ahead=clock_ahead, protocol=said.protocol)
            refused = self._refusal(site, serial, visit, str(asked.get("node_key", "")))
            holder = self.visits.get(site)
            if refused and _is_in_use_elsewhere(holder, visit):  # a copy: the site itself continues
                self._record_copy(site, visit)
            else:
                differs = "" if refused else visit.versions.difference(Versions.here())
                self._say_difference(site, holder, differs)
                self.visits[site] = replace(visit, refused=refused, differs=differs)
            write_atomic(self.folder / VISITS, json.dumps({n: asdict(v) for n, v in self.visits.items()}).encode())
            left_out = read_json(self.folder / RUN / REFUSED).get(site, "")
            renewed = {} if refused else self._renewed_files(site, serial)
            return {"time": now, "refused": refused, "left_out": left_out} | renewed

    def _refusal(self, site: str, serial: str, visit: Visit, node_key: str) -> str:
        """Why a site may not take part; empty if it may."""
        settings = load_server(self.folder)
        if site not in settings.everyone:
            return f"the server has no site '{site}': its operator must add it (fedloom deploy add {site})."
        is_revoked = serial.upper() in {one.serial for one in revocations(self.folder)}
        if is_revoked or site in revoked_sites(self.folder, settings):
            return "the operator has revoked this site: its certificate and its key are refused."
        if refusal := visit.versions.refusal(Versions.here(), "this site"):
            return refusal
        if visit.flower != (flower := version("flwr")):
            return f"this site has Flower {visit.flower}, but the server has {flower}: pip install flwr=={flower}."
        if node_key.strip() != (self.folder / KEYS / f"{site}.pub").read_text().strip():
            return (
                "its node.key is not the one that the server knows: this is an old folder, or one of another "
                "deployment; take the last one from the operator."
            )
        holder = self.visits.get(site)
        if holder is not None and _is_in_use_elsewhere(holder, visit):
            since = int(visit.seen - holder.seen)
            return (
                f"another machine uses the keys of {site} right now (at {holder.address}, {since} s ago): stop the one "
                "of the two that is a copy; if you did not make it, tell the operator to revoke the site."
            )
        return ""

    def _say_difference(self, site: str, before: Visit | None, differs: str) -> None:
        """Tell the operator once that a site has other versions; the audit log has it with each of its connections."""
        if differs and differs != (before.differs if before else ""):
            self.say(f"Site {site} {differs}: it takes part.")

    def _record_copy(self, site: str, visit: Visit) -> None:
        """Tell the operator of a machine that has the keys of a site that is connected, once per machine."""
        if self.copies.get(site) == visit.machine:
            return
        self.copies[site] = visit.machine
        reason = f"another machine, at {visit.address}, uses the site's keys"
        audit_log.append(self.folder, "site refused", site=site, reason=reason)
        self.say(f"Site {site}: {reason} while it is connected; it is refused. Revoke {site} if that is a stranger.")

    def _renewed_files(self, site: str, serial: str) -> dict[str, Any]:
        """A site's renewed files, if it does not use them yet."""
        place = self.folder / RENEWED / site
        if not (place / RENEWED_FILES[0]).is_file() or serial.upper() == site_serial(self.folder, site):
            return {}
        files = {name: (place / name).read_bytes() for name in RENEWED_FILES}
        if not fits_signature(files):  # the operator's command is writing them
            return {}
        return {"renewed": {name: content.decode() for name, content in files.items()}}


def visit_notes(folder: Path) -> dict[str, str]:
    """What the operator should know of sites that asked the server last, by name: refusals, and clocks that are off."""
    notes = {}
    for name, visit in read_json(folder / VISITS).items():
        ahead = float(visit.get("clock_ahead", 0.0))
        if visit.get("refused"):
            notes[name] = f"refused: {visit['refused']}"
        elif abs(ahead) > CLOCK_DIFFERS:
            notes[name] = f"its clock is {abs(ahead) / 60:.1f} minutes {'ahead' if ahead > 0 else 'behind'}"
    return notes


def _is_in_use_elsewhere(holder: Visit | None, visit: Visit) -> bool:
    """Whether another machine is the site's at this moment."""
    return (
        holder is not None
        and not holder.refused
        and holder.machine != visit.machine
        and visit.seen - holder.seen < LEASE
    )


class ReceptionServer(PageServer):
    """Listens on a loopback port for the questions that nginx passes on."""

    def __init__(self, desk: Reception) -> None:
        self.desk, self.secret = desk, secrets.token_hex(32)
        super().__init__("127.0.0.1", 0, ReceptionRequest, Access())


class ReceptionRequest(PageRequest):
    """Answers one question of a site."""

    server: ReceptionServer
    routes: ClassVar = {("POST", RECEPTION_PATH): "send_answer"}

    def check_sender(self) -> None:
        """Refuse whoever is not this server's nginx: it adds a secret, and who asks by the certificate."""
        if not secrets.compare_digest(self.headers.get("X-Secret", "").encode(), self.server.secret.encode()):
            raise RequestError(HTTPStatus.FORBIDDEN, "only the proxy of this server may ask here.")

    def send_answer(self) -> None:
        """Answer a site's question."""
        site, serial, address = (self.headers.get(f"X-Site-{name}", "") for name in ("Name", "Serial", "Address"))
        try:
            answer = self.server.desk.answer(site, serial, address, parse_json(self.read_body(LARGEST)))
        except (ValueError, TypeError, AttributeError):
            raise RequestError(HTTPStatus.BAD_REQUEST, "the question is not the JSON of a site.") from None
        self.send_text(HTTPStatus.OK, json.dumps(answer), JSON)


@contextlib.contextmanager
def open_reception(folder: Path, say: Callable[[str], None]) -> Iterator[Reception]:
    """Answer sites' questions, in a thread, on a loopback port that nginx passes them to."""
    path = folder / RECEPTION
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with ReceptionServer(Reception(folder, say)) as server:
        write_private(path, json.dumps({"port": server.server_port, "secret": server.secret}).encode())
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield server.desk
        finally:
            server.shutdown()
            thread.join()
            path.unlink(missing_ok=True)
