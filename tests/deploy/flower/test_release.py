"""The release of Flower that was tried, and the room that is all contact with it."""

from __future__ import annotations

import re
from pathlib import Path

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
    """Only Ray, between its own workers, and the notes that say so."""
    pattern = re.compile(r"^\s*(?:from|import) (?:c?pickle|cloudpickle|dill|joblib|shelve|marshal)|torch\.load\(", re.M)
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if pattern.search(path.read_text())}
    assert found <= {"engine/ray.py", "engine/cluster.py"}
    allowed = re.compile(r"allow_pickle=True")
    assert not [path for path in SOURCE.rglob("*.py") if allowed.search(path.read_text())]


def test_what_flower_no_longer_has_is_said() -> None:
    with pytest.raises(FedloomError, match="has no nothing"):
        release.replace_attribute(release, "nothing", None)
