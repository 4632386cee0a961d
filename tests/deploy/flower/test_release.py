"""The release of Flower that was tried, and the room that is all contact with it."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: the contract with it is not checked")

from fedloom.core.errors import FedloomError
from fedloom.deploy.flower import release

SOURCE = Path(release.__file__).resolve().parents[2]


def test_this_is_the_release_that_was_tried() -> None:
    release.check_flower()


def test_another_release_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "VERSION", "9.9")
    with pytest.raises(FedloomError, match=r"needs Flower 9\.9, but 1\.41\.0 is installed"):
        release.check_flower()


def test_one_room_of_ours_touches_flower() -> None:
    pattern = re.compile(r"^\s*(?:from|import) flwr", re.MULTILINE)
    found = {path.parent for path in SOURCE.rglob("*.py") if pattern.search(path.read_text())}
    assert found == {SOURCE / "deploy" / "flower"}


def test_no_path_that_reads_what_came_from_elsewhere_knows_pickle() -> None:
    """Only the pipe between a plan and a run that it forked, which nobody else can write to; and a sentence that says
    how to convert a file oneself."""
    pattern = re.compile(r"^\s*(?:from|import) (?:c?pickle|cloudpickle|dill|joblib|shelve|marshal)|torch\.load\(", re.M)
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if pattern.search(path.read_text())}
    assert found == {"runs/plans/side_by_side.py", "runs/start_model.py"}
    allowed = re.compile(r"allow_pickle=True")
    assert not [path for path in SOURCE.rglob("*.py") if allowed.search(path.read_text())]


def test_what_flower_no_longer_has_is_said() -> None:
    with pytest.raises(FedloomError, match="has no nothing"):
        release.replace_attribute(release, "nothing", None)


def test_what_carries_messages_gives_memory_back_and_what_computes_does_not_pay_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from fedloom.deploy.flower import server_half
    from fedloom.deploy.operate import run_server, run_site

    started: dict[str, dict[str, str]] = {}

    def start(name: str, _: object, __: object, environment: dict[str, str], ___: object) -> None:
        started[name] = environment

    for module in (run_server, run_site):
        monkeypatch.setattr(module, "start_program", start)
        monkeypatch.setattr(module, "wait_until_ready", lambda *_: None)
    anything: Any = None
    run_server.start_superlink(tmp_path, anything)
    run_site.start_supernode(tmp_path, anything, anything, print)
    run_site._start_site_process(tmp_path)
    for name, value in release.LEAN_MEMORY.items():
        monkeypatch.setenv(name, value)  # as in the SuperLink, which starts the server's half
    monkeypatch.setattr(server_half.subprocess, "Popen", lambda *_, env, **__: started.update(half=env) or SimpleNamespace(stdin=None))  # fmt: skip # noqa: E501
    server_half._start_server_half(tmp_path, "token")
    lean = {name for name, environment in started.items() if release.LEAN_MEMORY.items() <= environment.items()}
    assert lean == {"Flower's SuperLink", "Flower's SuperNode"}
    assert not release.LEAN_MEMORY.keys() & started["half"].keys()
