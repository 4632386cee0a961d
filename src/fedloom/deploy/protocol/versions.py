"""Which versions may take part in one run: what must agree for the same numbers, and what may differ.

Two numbers must agree between the server and a site. ``PROTOCOL`` is that of what they say to each other and of what a
site computes; releases with the same one take part in the same runs, so that sites can be upgraded one at a time. torch
must be the same release, since another one may round differently, and a run would not have the simulator's bytes. Its
build (``+cpu``, ``+cu130``) may differ, and so may Fedloom's own version: that is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version

import fedloom
from fedloom.deploy.protocol.printable import printable_line

PROTOCOL = 1
"""Raised with a release that changes what is said on the wire, what a plan is called (its digest, so every new setting
of a run), or what a site computes. ``tests/deploy/protocol/test_versions.py`` notices the first two."""


@dataclass(frozen=True)
class Versions:
    """The versions of a participant, as it says them.

    Args:
        fedloom: Its version of Fedloom.
        protocol: The protocol that it speaks; 0 if it says none, as Fedloom did before there were numbers.
        torch: Its version of torch.
    """

    fedloom: str
    protocol: int
    torch: str

    @staticmethod
    def here(torch: str = "") -> Versions:
        """Those of this process.

        Args:
            torch: What torch says of itself; by default what was installed, which may leave the build out.
        """
        return Versions(fedloom.__version__, PROTOCOL, torch or version("torch"))

    @staticmethod
    def said(fedloom: object, protocol: object, torch: object) -> Versions:
        """Those that somebody else says: anything, which is cut to what can be printed."""
        number = protocol if type(protocol) is int and protocol > 0 else 0
        return Versions(printable_line(str(fedloom), 40), number, printable_line(str(torch), 40))

    def refusal(self, server: Versions, who: str) -> str:
        """Why a site with these versions may not take part, and what to do; empty if it may.

        Args:
            server: Those that the site must fit.
            who: The site, as the sentence calls it.
        """
        if self.protocol != server.protocol:
            spoken = f"protocol {self.protocol}" if self.protocol else "no protocol with a number"
            return (
                f"{who} runs fedloom {self.fedloom} ({spoken}), but the server runs {server.fedloom} (protocol "
                f"{server.protocol}): pip install 'fedloom[deploy]=={server.fedloom}' there, or upgrade the server."
            )
        if _release(self.torch) != _release(server.torch):
            return (
                f"{who} has torch {self.torch}, but the server has {server.torch}, which may round differently: pip "
                f"install torch=={_release(server.torch)} there."
            )
        return ""

    def difference(self, server: Versions) -> str:
        """How these versions of a site that takes part differ from the server's; empty if they do not.

        Args:
            server: Those that the site must fit.
        """
        found = []
        if self.fedloom != server.fedloom:
            found.append(f"fedloom {self.fedloom}, and the server {server.fedloom} (both speak protocol {PROTOCOL})")
        if self.torch != server.torch:
            found.append(f"torch {self.torch}, and the server {server.torch} (the same release)")
        return f"runs {'; '.join(found)}" if found else ""


def _release(torch: str) -> str:
    """torch's version without its build."""
    return torch.partition("+")[0]
