"""Checkpoints: the whole state, whole files, no pickle, and a stop at any write leaves a run that goes on."""

from __future__ import annotations

import json
import os
import pickletools
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.kept_rows import KeptRows, pack_kept
from fedloom.core.task import Task
from fedloom.files.atomic_write import write_atomic
from fedloom.rounds.client_states import ClientStates
from fedloom.rounds.run_state import RunState
from fedloom.runs.folder import checkpoint
from fedloom.runs.folder.checkpoint import load_checkpoint, read_server_state, save_checkpoint
from fedloom.runs.folder.recover import recover
from support.synthetic import federation, mlp

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}


def small_task() -> Task:
    return Task("own", federation([20, 9, 14]), mlp(hidden=4))


def result_files(folder: Path) -> dict[str, bytes]:
    """All that a finished run leaves and no clock decides."""
    files = [*folder.glob("checkpoints/*.safetensors"), folder / "metrics.jsonl", folder / "clients.json"]
    return {path.name: path.read_bytes() for path in files}


def run(folder: Path, method="fedavg", **settings) -> dict[str, bytes]:
    fl.run(small_task(), method, out=folder, **{"rounds": 4, "seed": 3, "local": WORK, **settings})
    return result_files(folder)


def same(one: RunState, other: RunState, clients: int) -> bool:
    everybody = list(range(clients))
    pairs = [
        (one.server, other.server),
        (one.optimizer, other.optimizer),
        tuple(pack_kept(state.client_states.read(everybody)) for state in (one, other)),
    ]
    equal = all(a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a) for a, b in pairs)
    return one.round == other.round and equal


def test_a_state_is_read_back_as_it_was_written(tmp_path):
    state = RunState(7, {"row": torch.randn(9), "mu": torch.tensor(0.1), "falls": torch.tensor(3)})
    state.optimizer, state.client_states = {"m": torch.randn(9)}, ClientStates(5)
    state.client_states.write([1, 4], {"head": KeptRows.of_all(torch.randn(2, 3))})
    save_checkpoint(tmp_path, state)
    assert same(load_checkpoint(tmp_path, 5), state, 5)


def test_a_folder_without_a_checkpoint_has_no_state(tmp_path):
    assert load_checkpoint(tmp_path, 5) is None


def test_the_newest_round_and_the_two_before_are_left(tmp_path):
    for number in (1, 2, 3, 4):
        save_checkpoint(tmp_path, RunState(number, {"row": torch.full((2,), float(number))}))
    checkpoints = tmp_path / "checkpoints"
    assert [path.name for path in checkpoints.glob("*.safetensors")] == ["round-000004.safetensors"]
    assert sorted(path.name for path in (checkpoints / "earlier").iterdir()) == [
        "round-000002.safetensors",
        "round-000003.safetensors",
    ]
    assert load_checkpoint(tmp_path, 5).server["row"].tolist() == [4, 4]


@pytest.mark.parametrize("compact", [0, 1, 2, 4, 1000])
def test_changes_and_compaction_restore_the_same_kept_rows(tmp_path, monkeypatch, compact):
    monkeypatch.setattr(checkpoint, "COMPACT", compact)
    state, luck = RunState(0, {}, {}, ClientStates(6)), torch.Generator().manual_seed(4)
    sizes = []
    for number in range(1, 31):
        ids = sorted(torch.randperm(6, generator=luck)[:2].tolist())
        kept = {name: torch.randn(2, width, generator=luck) for name, width in (("row", 500), ("c", 1))}
        state.client_states.write(ids, {name: KeptRows.of_all(rows) for name, rows in kept.items()})
        state.round = number
        save_checkpoint(tmp_path, state)
        assert same(load_checkpoint(tmp_path, 6), state, 6)
        sizes.append(sum(path.stat().st_size for path in (tmp_path / "checkpoints").glob("*.safetensors")))
    names = [path.name for path in (tmp_path / "checkpoints").glob("kept-*")]
    if compact == 1000:
        assert len(names) == 30
    else:
        assert any("-all" in name for name in names)
        assert max(sizes) < (compact + 2.5) * 6 * 501 * 4


def test_kept_rows_of_a_round_that_never_finished_are_forgotten(tmp_path):
    state = RunState(1, {}, {}, ClientStates(3))
    (tmp_path / "config.toml").write_text("")
    state.client_states.write([0], {"row": KeptRows.of_all(torch.ones(1, 200))})
    save_checkpoint(tmp_path, state)
    state.client_states.write([0], {"row": KeptRows.of_all(torch.full((1, 200), 9.0))})
    state.round = 2
    save_checkpoint(tmp_path, state)
    (tmp_path / "checkpoints" / "manifest-000002.json").unlink()
    recover(tmp_path)
    found = load_checkpoint(tmp_path, 3)
    assert found.round == 1
    assert torch.equal(found.client_states.read([0])["row"].rows, torch.ones(1, 200))
    assert not (tmp_path / "checkpoints" / "kept-000002.safetensors").exists()


LOST = r"checkpoints has no manifest, so nothing in .* can be checked: restore the folder from a copy, or start"


def test_a_folder_that_has_lost_its_manifests_is_refused_by_every_reader(tmp_path):
    folder = tmp_path / "run"
    run(folder, "local")
    for path in (folder / "checkpoints").glob("manifest-*"):
        path.unlink()
    readers: list[Callable[[], object]] = [
        lambda: load_checkpoint(folder, 3),
        lambda: read_server_state(folder),
        lambda: fl.History.load(folder),
        lambda: fl.resume(folder, task=small_task()),
    ]
    for read in readers:
        with pytest.raises(FedloomError, match=LOST):
            read()
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(FedloomError, match=LOST):
        fl.History.load(folder)


def test_a_checkpoint_of_a_version_without_manifests_is_read(tmp_path):
    folder = tmp_path / "old"
    run(folder, "local")
    for path in (folder / "checkpoints").glob("manifest-*"):
        path.unlink()
    config = (folder / "config.toml").read_text()
    marked = re.sub(r'(?m)^fedloom = ".*"$', 'fedloom = "0.5.0"', config)
    (folder / "config.toml").write_text(re.sub(r'(?m)^format = ".*"\n', "", marked))
    assert load_checkpoint(folder, 3).round == 4


def test_a_run_that_was_killed_before_its_first_manifest_is_resumed(tmp_path):
    folder = tmp_path / "run"
    run(folder, "local")
    for path in folder.iterdir():
        if path.name not in ("config.toml", "partition.json"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert len(fl.resume(folder, task=small_task()).records) == 5


@pytest.mark.parametrize("method", ["fedyogi", "local"])
def test_checkpoints_are_safetensors_and_hold_no_pickle(tmp_path, method):
    run(tmp_path / "run", method)
    files = list((tmp_path / "run" / "checkpoints").rglob("*.safetensors"))
    assert files
    for path in files:
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        assert 8 + length + max(ends) == len(content)  # tensors and nothing beside them
        assert load_file(path)
        with pytest.raises(ValueError, match=r"opcode|pickle|not enough|unknown|expected"):
            list(pickletools.genops(content))


def test_a_file_is_whole_or_not_there(tmp_path, monkeypatch):
    write_atomic(tmp_path / "it", b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(tmp_path / "it", b"new")
    assert (tmp_path / "it").read_bytes() == b"old"


GARBAGE = {"empty": b"", "text": b"no checkpoint at all" * 10, "cut": None, "pickle": b"\x80\x04\x95\x00\x00\x00\x00."}


@pytest.mark.parametrize("kind", GARBAGE)
@pytest.mark.parametrize("which", ["round", "kept"])
def test_a_garbled_checkpoint_is_one_sentence_to_read_and_resumed_from_the_one_before(tmp_path, caplog, kind, which):
    whole = run(tmp_path / "run", "local" if which == "kept" else "fedavg")
    path = sorted((tmp_path / "run" / "checkpoints").glob(f"{which}-*.safetensors"))[-1]
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] if GARBAGE[kind] is None else GARBAGE[kind])
    with pytest.raises(FedloomError, match="is not what the run wrote") as caught:
        load_checkpoint(tmp_path / "run", 3)
    assert path.name in str(caught.value)
    assert "fedloom resume" in str(caught.value)
    assert "\n" not in str(caught.value)
    with caplog.at_level("WARNING", "fedloom"):
        fl.resume(tmp_path / "run", task=small_task())
    assert "continues from round 3" in caplog.text
    assert result_files(tmp_path / "run") == whole


# -- a stop at any moment


class Stop(BaseException):
    """The end of a process, as seen from inside: no handler for ordinary errors runs."""


def stops(monkeypatch: pytest.MonkeyPatch, at: int) -> list[int]:
    """Make the n-th change of the file system (a synced write, a renaming, a removal) never happen."""
    count = [0]
    for name in ("fsync", "replace", "unlink"):
        monkeypatch.setattr(os, name, _change_call(getattr(os, name), count, at))
    return count


def _change_call(change, count, at):
    def maybe(*args, **kwargs):
        count[0] += 1
        if count[0] == at:
            raise Stop
        return change(*args, **kwargs)

    return maybe


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedyogi", pytest.param("local", marks=pytest.mark.exhaustive)])
def test_a_stop_at_any_change_of_the_folder_is_resumed_to_the_same_bytes(tmp_path, monkeypatch, method):
    monkeypatch.setattr(checkpoint, "COMPACT", 2)  # kept rows are written whole in round 6
    settings = {"rounds": 8, "selection": {"number": 1}, "eval_every": 4}
    whole = run(tmp_path / "whole", method, **settings)
    with monkeypatch.context() as patch:
        count = stops(patch, -1)
        run(tmp_path / "counted", method, **settings)
    assert count[0] > 8 * 2
    assert method != "local" or sorted(whole)[1] == "kept-000006-all.safetensors"
    different = {}
    for at in range(1, count[0] + 1, 1 if method == "local" else 3):  # a method that keeps rows has all kinds of files
        folder = tmp_path / str(at)
        with monkeypatch.context() as patch:
            stops(patch, at)
            with pytest.raises(Stop):
                run(folder, method, **settings)
        if not (folder / "config.toml").exists():  # it never began
            run(folder, method, **settings)
        else:
            fl.resume(folder, task=small_task())
        left = result_files(folder)
        if left != whole:
            different[at] = sorted(name for name in left.keys() | whole if left.get(name) != whole.get(name))
    assert different == {}, f"stops out of {count[0]} after which files differ from {sorted(whole)}"


def test_the_number_of_rounds_between_checkpoints_changes_no_number(tmp_path):
    every, third = run(tmp_path / "1", rounds=7), run(tmp_path / "3", rounds=7, checkpoint_every=3)
    assert every == third
