"""Container files: their instructions, and what is wrong with them. A small lint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

KNOWN = {"FROM", "RUN", "COPY", "USER", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
SECRET = re.compile(r"passw|secret|token|api_?key|\.pem\b|\.key\b|://", re.IGNORECASE)


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a file with what follows them; continued lines are one."""
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    whole = "\n".join(lines).replace("\\\n", " ")
    return [(word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in whole.splitlines())]


def complaints(text: str) -> Iterator[str]:
    """What is wrong with a container file."""
    found = instructions(text)
    rest = {word: [what for name, what in found if name == word] for word in KNOWN}
    yield from (f"{word}: it is not used here" for word, _ in found if word not in KNOWN)
    yield from (f"{word} {what}: it names a secret or an address" for word, what in found if SECRET.search(what))
    for image in rest["FROM"]:
        if not re.fullmatch(r"[a-z]+:\d+\.\d+(\.\d+)?-slim-[a-z]+(@sha256:[0-9a-f]{64})?", image):
            yield f"FROM {image}: its tag has no version with a release of the system"
    if found[0][0] != "FROM" or len(rest["FROM"]) != 1:
        yield "FROM: it must come first, and once"
    users = rest["USER"]
    created = re.findall(r"useradd --uid (\d+) .*?(\w+)$", "\n".join(rest["RUN"]), re.MULTILINE)
    if not users or users[-1] not in {name for uid, name in created if int(uid) >= 1000}:
        yield "USER: the last one must be a user that was made here, and not root"
    for word in ("ENTRYPOINT", "CMD"):
        if len(rest[word]) != 1 or not _is_list(rest[word][0]):
            yield f"{word}: it must be there once, as a JSON list, so that the program gets the signals itself"
    for command in rest["RUN"]:
        if "apt-get install" in command and not (
            "apt-get update &&" in command and "--no-install-recommends" in command and "rm -rf /var/lib/apt" in command
        ):
            yield f"RUN {command}: update, install without recommendations and clean up in one step"
        if "pip install" in command and not ("--no-cache-dir" in command and " -c " in command):
            yield f"RUN {command}: pip needs --no-cache-dir and the versions that were tested"


def _is_list(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list)
    except ValueError:
        return False
