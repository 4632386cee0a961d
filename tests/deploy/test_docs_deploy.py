"""The walk-through of docs/deploy.md is executed as it is written, and the page's tables are the code's."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.settings import PolicySettings, ServerSettings, Settings, SiteData, SiteSettings
from support.paths import DOCS, REPOSITORY
from support.waiting import wait_until

PAGE = DOCS / "deploy.md"
TESTS = REPOSITORY / "tests"
PORTS = (8443, 8000, 9094, 9095, 9096)
LONGEST = 1200.0
"""Seconds for the whole walk-through; on a quiet machine it takes about one minute."""
FILE, COMMANDS = "file", "commands"


def section(title: str) -> str:
    """The text of a section of the page."""
    return PAGE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]


def steps(text: str) -> list[tuple[str, str, str]]:
    """The files that a text says to save, and its console blocks, in order."""
    found = []
    for language, name, body in re.findall(r"^```(\w+) ?([^\n]*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if name:
            found.append((FILE, name, body))
        elif language == "console":
            found.append((COMMANDS, "", body))
    return found


class Shell:
    """A person at a terminal: types commands into one shell, and waits for what the page says will appear."""

    def __init__(self, folder: Path) -> None:
        self.seen = folder / "terminal.txt"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        with open(self.seen, "wb") as screen:
            self.process = subprocess.Popen(
                ["bash"], stdin=subprocess.PIPE, stdout=screen, stderr=screen, cwd=folder, start_new_session=True,
                env=os.environ | {"PATH": path, "COLUMNS": "100", "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        self.end, self.typed = time.monotonic() + LONGEST, 0

    def output(self, since: int) -> str:
        """What has appeared since some place."""
        with open(self.seen, "rb") as screen:
            screen.seek(since)
            return screen.read().decode(errors="replace")

    def block(self, text: str) -> None:
        """Type the commands of a console block, and see its other lines appear."""
        since = self.seen.stat().st_size
        for line in text.splitlines():
            if line.startswith("$ "):
                self._type(line[2:])
        for line in text.splitlines():
            if not line.startswith("$ ") and line != "...":
                self._wait(".*".join(map(re.escape, line.split("..."))), since)

    def _type(self, command: str) -> None:
        assert self.process.stdin is not None
        since, self.typed = self.seen.stat().st_size, self.typed + 1
        self.process.stdin.write(f"{command}\necho typed-{self.typed} $?\n".encode())
        self.process.stdin.flush()
        code = self._wait(rf"typed-{self.typed} (\d+)", since)[1]
        assert code == "0", f"$ {command}\n{self.output(since)}"

    def _wait(self, pattern: str, since: int) -> re.Match[str]:
        while time.monotonic() < self.end:
            found = re.search(pattern, self.output(since))
            if found:
                return found
            assert self.process.poll() is None, f"the shell ended:\n{self.output(0)}"
            time.sleep(0.05)
        raise AssertionError(f"never seen: {pattern}\n{self.output(0)}")

    def close(self) -> None:
        """End the shell and whatever was started in it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def processes_of(folder: Path) -> dict[int, str]:
    """Processes that were started in a folder, or for it, and their command lines."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command, place = (path / "cmdline").read_bytes(), os.readlink(path / "cwd").encode()
            if str(folder).encode() in command + place + (path / "environ").read_bytes():
                found[int(path.name)] = command.replace(b"\0", b" ").decode()
    return found


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    try:
        yield shell
    finally:
        shell.close()
        for number in processes_of(tmp_path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def ports_in_use() -> list[int]:
    """The walk-through's ports that another program has."""
    found = []
    for port in PORTS:
        with socket.socket() as trial:
            found += [port] if trial.connect_ex(("127.0.0.1", port)) == 0 else []
    return found


@pytest.mark.slow
@pytest.mark.xdist_group("deployment")
@pytest.mark.timeout(LONGEST + 300)
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed: the walk-through is not tried")
def test_the_walk_through_works_as_written(shell: Shell, tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="flwr is not installed: the walk-through is not tried")
    if ports_in_use():
        pytest.skip(f"port {ports_in_use()[0]} is taken: the walk-through is not tried")
    for kind, name, text in steps(section("A walk-through")):
        if kind == FILE:
            (tmp_path / name).write_text(text)
        else:
            shell.block(text)
    wait_until(lambda: not processes_of(tmp_path).keys() - {shell.process.pid}, "a program is still running")


def defaults(kind: type[Settings], before: str = "") -> dict[str, str]:
    """The settings of a class with their defaults as they are written in TOML; nothing where there is no fixed one."""
    found: dict[str, str] = {}
    for name, field in kind.model_fields.items():
        inner = {"data": SiteData, "policy": PolicySettings}.get(name)
        if inner is not None:
            found |= defaults(inner, f"{name}.")
            continue
        value = "" if field.is_required() else field.get_default(call_default_factory=True)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        found[before + name] = "none" if value is None else f"`{text}`" if not field.is_required() else ""
    return found


@pytest.mark.parametrize(("title", "kind"), [("deploy.toml", ServerSettings), ("site.toml", SiteSettings)])
def test_every_setting_is_in_its_table_with_its_default(title: str, kind: type[Settings]) -> None:
    table = section("Settings").split(f"### {title}\n")[1].split("\n### ")[0]
    documented = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]*) \|", table, re.MULTILINE))
    known = defaults(kind)
    assert list(documented) == list(known)
    assert {name: said for name, said in documented.items() if known[name]} == {n: d for n, d in known.items() if d}


def test_the_sentences_about_unreadable_data_are_those_that_a_site_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {name: text for kind, name, text in steps(section("A walk-through")) if kind == FILE}
    exec(files["make_data.py"], {})  # noqa: S102
    blueprint = Blueprint.of(resolve(tomllib.loads(files["run.toml"])), ["north", "south", "west"])
    header, *rows = (line.split(",") for line in Path("north.csv").read_text().splitlines())
    unreadable = {
        "no column": ([*header[:-1], "label"], rows),
        "NaN": (header, change_cell(rows, 17, 1, "nan")),
        "word": (header, change_cell(rows, 17, 1, "high")),
        "unclear": (header, change_cell(rows, 5, -1, "unclear")),
    }
    sentences = []
    for head, lines in unreadable.values():
        Path("data.csv").write_text("\n".join(",".join(line) for line in (head, *lines)))
        sentences.append(refusal(blueprint, "data.csv"))
    np.savez("data.npz", x=np.zeros((9, 5), dtype=np.float32), y=np.zeros(9, dtype=np.int64))
    sentences.append(refusal(blueprint, "data.npz"))
    (listed,) = re.findall(r"^```text\n(.*?)^```", section("How sites bring data"), re.MULTILINE | re.DOTALL)
    assert listed.splitlines() == [f"error: {sentence}" for sentence in sentences]


def change_cell(rows: list[list[str]], row: int, column: int, cell: str) -> list[list[str]]:
    """A table with another cell; rows are counted from 1."""
    copy = [list(line) for line in rows]
    copy[row - 1][column] = cell
    return copy


def refusal(blueprint: Blueprint, path: str) -> str:
    """Why a site's data are not taken."""
    settings = SiteSettings(name="north", client=0, data=SiteData(path=path, target="diagnosis"))
    with pytest.raises(FedloomError) as why:
        blueprint.site_task(settings, Path())
    return str(why.value)


def test_the_example_of_a_sites_settings_is_valid() -> None:
    ((_, _, text),) = steps(section("How sites bring data"))
    assert SiteSettings.model_validate(tomllib.loads(text)).data.ignore == ["patient"]


def test_every_row_of_the_faults_names_a_test_that_exists() -> None:
    rows = re.findall(r"^\| .* \| .* \| (`test_.*) \|$", section("Faults"), re.MULTILINE)
    code = "".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    assert len(rows) > 15
    for name in re.findall(r"`(test_\w+)`", "".join(rows)):
        assert f"def {name}(" in code, f"there is no {name}"
