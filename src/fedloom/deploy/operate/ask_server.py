"""What Flower does not tell a site: why it is refused, how its clock differs, renewed certificates.

The site asks through the same door as Flower, with its certificate, before it joins and every few seconds after that
(``reception.py`` answers). The dates of the server's certificate are checked by the server's clock here, and not by
this machine's, so that a clock that is off is not taken for a certificate that has expired.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.deploy.operate.programs import connection_problem
from fedloom.deploy.operate.reception import CLOCK_DIFFERS
from fedloom.deploy.protocol.printable import printable_line
from fedloom.deploy.protocol.versions import PROTOCOL
from fedloom.deploy.provision.certificates import AUTHORITY, SITE, check_certificates, check_pair, public_key_of
from fedloom.deploy.provision.change_files import change_files
from fedloom.deploy.provision.private_keys import NODE_KEY, SITE_KEY
from fedloom.deploy.provision.proxy import RECEPTION_PATH
from fedloom.deploy.provision.signature import RENEWED_FILES, check_signature
from fedloom.deploy.settings import SiteSettings
from fedloom.files.json_text import parse_json

EVERY = 10.0
"""Seconds between two questions."""
TIMEOUT = 5.0
"""Seconds in which the server must answer."""
LARGEST = 1 << 20
"""Most bytes of an answer."""
clock = time.time
"""This machine's clock."""
_NO_CHECK_TIME = 0x200000  # OpenSSL's X509_V_FLAG_NO_CHECK_TIME


class SiteRefused(FedloomError):  # noqa: N818
    """The server refuses this site, for the reason that it gives."""


class ServerUnreachable(FedloomError):  # noqa: N818
    """The server does not answer; the site keeps trying."""


@dataclass(frozen=True)
class ServerAnswer:
    """What the server said: how many seconds this machine's clock is ahead, why the run leaves the site out, and the
    site's renewed files, if there are any."""

    clock_ahead: float
    left_out: str
    renewed: dict[str, str]


def ask_server(folder: Path, settings: SiteSettings) -> ServerAnswer | None:
    """Ask the server about this site; None if it has nobody to ask, as without a proxy.

    Raises:
        SiteRefused: The server refuses the site.
        ServerUnreachable: The server does not answer.
    """
    host, _, port = settings.server.rpartition(":")
    context = ssl.create_default_context(cafile=str(folder / AUTHORITY))
    context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
    context.load_cert_chain(folder / SITE, folder / SITE_KEY)
    call = http.client.HTTPSConnection(host.strip("[]"), int(port), context=context, timeout=TIMEOUT)
    try:
        call.connect()
        until = ssl.cert_time_to_seconds(str((call.sock.getpeercert() or {})["notAfter"]))
        sent_at = clock()
        call.request("POST", RECEPTION_PATH, json.dumps(_question(folder) | {"time": sent_at}))
        answer = call.getresponse()
        data = answer.read(LARGEST)
    except ssl.SSLCertVerificationError as why:
        raise SiteRefused(_certificate_problem(why.verify_message, settings)) from None
    except (OSError, http.client.HTTPException) as why:
        problem = connection_problem(settings.server) or f"it hung up ({printable_line(str(why), 100)})"
        raise ServerUnreachable(problem) from None
    finally:
        call.close()
    server_time = _date(answer.headers.get("Date")) or sent_at
    if until < server_time:
        day = time.strftime("%Y-%m-%d", time.gmtime(until))
        raise SiteRefused(f"the server's certificate expired on {day}: its operator must renew it.")
    if answer.status != 200:
        _explain_status(answer.status, data, sent_at - server_time, folder)
        return None
    return _read_answer(data, (sent_at + clock()) / 2)


def _question(folder: Path) -> dict[str, Any]:
    """What a site tells about itself: its machine, versions, and its node's public key."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

    key = load_ssh_private_key((folder / NODE_KEY).read_bytes(), None).public_key()
    return {
        "machine": machine_digest(folder),
        "fedloom": fedloom.__version__,
        "protocol": PROTOCOL,
        "flower": version("flwr"),
        "torch": version("torch"),
        "node_key": key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode(),
    }


def machine_digest(folder: Path) -> str:
    """A digest of the machine since its last start, and of the folder on its disk: two copies of a folder differ."""
    boot, about = Path("/proc/sys/kernel/random/boot_id"), folder.stat()
    started = boot.read_text() if boot.exists() else ""
    return hashlib.sha256(f"{started} {about.st_dev} {about.st_ino}".encode()).hexdigest()[:32]


def _read_answer(data: bytes, asked_at: float) -> ServerAnswer:
    try:
        found = parse_json(data)
        ahead, refused, left_out = asked_at - float(found["time"]), str(found["refused"]), str(found["left_out"])
        renewed = {name: str(found["renewed"][name]) for name in RENEWED_FILES} if "renewed" in found else {}
    except (ValueError, KeyError, TypeError):
        raise ServerUnreachable("its answer cannot be read") from None
    if refused:
        raise SiteRefused(printable_line(refused, 500))
    return ServerAnswer(ahead, printable_line(left_out, 500), renewed)


def _explain_status(status: int, data: bytes, ahead: float, folder: Path) -> None:
    """Raise the reason of an answer that is not a success; return if the server has nobody to ask."""
    said = printable_line(data.decode(errors="replace"), 200).removeprefix("fedloom: ").strip()
    if status == 410:
        raise SiteRefused("the operator has revoked this site: its certificate and its key are refused.")
    if status == 400 and "expired" in said:
        differs = f" ({clock_words(ahead)})" if abs(ahead) > CLOCK_DIFFERS else ""
        raise SiteRefused(
            f"{folder / SITE} has expired by the server's clock{differs}: ask the operator for a renewed one (fedloom "
            "deploy renew)."
        )
    if status == 400:
        raise SiteRefused(
            f"the server does not accept this site's certificate ({said}): get a folder of this deployment from its "
            "operator."
        )
    if status in (502, 503, 504):
        raise ServerUnreachable("its programs are not up yet")


def _certificate_problem(said: str, settings: SiteSettings) -> str:
    if "not valid for" in said:
        return f"the server's certificate is for another address ({said}): check `server` in site.toml."
    return (
        f"the certificate of the server at {settings.server} is not from this site's authority (ca.crt): get a folder "
        "of this deployment from its operator."
    )


def _date(text: str | None) -> float | None:
    with contextlib.suppress(TypeError, ValueError):
        return parsedate_to_datetime(str(text)).timestamp()
    return None


def clock_words(ahead: float) -> str:
    """How a machine's clock differs from the server's, in words."""
    size = abs(ahead)
    for unit, seconds in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0)):
        if size >= 2 * seconds or unit == "seconds":
            break
    return f"this machine's clock is {size / seconds:.1f} {unit} {'ahead of' if ahead > 0 else 'behind'} the server's"


def check_dates(folder: Path, settings: SiteSettings) -> None:
    """``check_certificates``; if the server answers, a clock that is off is not taken for an expired certificate."""
    try:
        check_certificates(folder)
    except FedloomError as why:
        if " expired on " not in str(why) and " is not valid before " not in str(why):
            raise
        with contextlib.suppress(ServerUnreachable):
            answer = ask_server(folder, settings)
            if answer is not None and abs(answer.clock_ahead) > CLOCK_DIFFERS:
                words = clock_words(answer.clock_ahead)
                raise FedloomError(f"{words}: set it (timedatectl set-ntp true); until then {why}") from None
        raise


class ServerContact:
    """A site's contact with its server while it runs.

    Args:
        folder: The site's folder.
        say: Gets lines for the user.
        renewed: Called when renewed certificates are in the folder.
    """

    def __init__(
        self, folder: Path, settings: SiteSettings, say: Callable[[str], None], renewed: Callable[[], None]
    ) -> None:
        self.folder, self.settings, self.say, self.renewed = folder, settings, say, renewed
        self.next = 0.0
        self.clock_ahead = 0.0
        self.left_out = ""

    def check(self) -> None:
        """Ask the server, if the last time is a while ago; an error says that it refuses this site."""
        if time.monotonic() >= self.next:
            with contextlib.suppress(ServerUnreachable):
                self.ask()

    def ask(self) -> None:
        """Ask the server now, and tell the user what is new."""
        try:
            answer = ask_server(self.folder, self.settings)
        except SiteRefused as why:
            raise SiteRefused(f"site {self.settings.name} is refused by {self.settings.server}: {why}") from None
        finally:
            self.next = time.monotonic() + EVERY
        if answer is None:
            return
        if abs(answer.clock_ahead - self.clock_ahead) > CLOCK_DIFFERS:
            self.clock_ahead = answer.clock_ahead
            self.say(self._clock_sentence())
        if answer.left_out != self.left_out:
            self.left_out = answer.left_out
            if answer.left_out:
                self.say(f"The run does not let site {self.settings.name} take part: {answer.left_out}")
        if answer.renewed:
            self._take(answer.renewed)

    def problem(self) -> str:
        """Why the server cannot be reached or joined, in words; empty if it can."""
        try:
            self.ask()
        except ServerUnreachable as why:
            return str(why)
        return ""

    def _clock_sentence(self) -> str:
        if abs(self.clock_ahead) <= CLOCK_DIFFERS:
            return "This machine's clock agrees with the server's again."
        words = clock_words(self.clock_ahead)
        return f"T{words[1:]}: set it (timedatectl set-ntp true); until then the site's messages are corrected by that."

    def _take(self, files: dict[str, str]) -> None:
        """Put renewed files into the folder; what does not fit its keys and its authority is not taken."""

        def check(draft: Path) -> None:
            if public_key_of(draft / AUTHORITY) != public_key_of(self.folder / AUTHORITY):
                raise FedloomError("they are from another authority.")
            check_pair(draft / SITE, self.folder / SITE_KEY, draft / AUTHORITY)
            check_signature(self.folder, draft)

        try:
            change_files(self.folder, {name: files[name].encode() for name in RENEWED_FILES}, check)
        except (FedloomError, UnicodeEncodeError) as why:
            self.say(f"The server offers renewed certificates that do not fit this folder: {why}")
            self.next = time.monotonic() + 60 * EVERY
            return
        except OSError as why:
            self.say(f"Renewed certificates came from the server and cannot be written ({why.strerror}): make room.")
            self.next = time.monotonic() + 60 * EVERY
            return
        self.say("Renewed certificates came from the server; the site connects again with them.")
        self.renewed()
