"""Optimisers and schedules of a user's own in a config."""

import pytest
import torch

from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.registry.code_consent import trust_only

DIGITS = {"name": "digits", "clients": 4}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import torch\nclass Mine(torch.optim.SGD):\n    pass\ndef rate(round):\n    return 1\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("made", [dict, LocalWork])
def test_files_have_absolute_paths(folder, made):
    local = resolve({"task": DIGITS, "local": made(optimizer="mine.py:Mine", schedule="mine.py:rate")}).local
    assert (local.optimizer, local.schedule) == (f"{folder}/mine.py:Mine", f"{folder}/mine.py:rate")


def test_a_class_and_a_spelling_stand_for_their_names():
    for given, name in ((torch.optim.Adamax, "torch.optim.adamax:Adamax"), ("AdamW", "adamw")):
        assert resolve({"task": DIGITS, "local": {"optimizer": given}}).local.optimizer == name


@pytest.mark.usefixtures("folder")
def test_a_folder_does_not_run_code_that_it_names():
    for section in ({"local": {"optimizer": "mine.py:Mine"}}, {"server_optimizer": {"schedule": "mine.py:rate"}}):
        with trust_only([], "it"), pytest.raises(FedloomError, match=r"--trust mine\.py"):
            resolve({"task": DIGITS, **section})
    with trust_only([], "it"):  # torch is loaded already
        resolve({"task": DIGITS, "local": {"optimizer": "torch.optim:Adamax"}})
