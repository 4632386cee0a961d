"""A damaged run folder: it goes on to the right bytes or ends in one sentence, never in other numbers."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.runs.results.history import History
from support.folders import stop_after, written
from support.synthetic import small_task

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
HOW = {"rounds": 4, "seed": 3, "local": WORK, "selection": {"number": 2}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run, and the same run stopped in round 3, of a method whose clients keep rows."""
    root = tmp_path_factory.mktemp("runs")
    fl.run(small_task(), "fedper", out=root / "finished", **HOW)
    with pytest.raises(KeyboardInterrupt):
        fl.run(small_task(), "fedper", out=root / "stopped", observers=[stop_after(3)], **HOW)
    return {name: root / name for name in ("finished", "stopped")}


def files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def flip(path: Path, luck: random.Random, _: Path) -> None:
    content = bytearray(path.read_bytes())
    content[luck.randrange(len(content))] ^= 1 << luck.randrange(8)
    path.write_bytes(content)


def cut(path: Path, luck: random.Random, _: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: luck.randrange(len(content))])


def remove(path: Path, _: random.Random, __: Path) -> None:
    path.unlink()


def swap(path: Path, luck: random.Random, folder: Path) -> None:
    other = luck.choice(files(folder))
    mine, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(mine)


def edit(path: Path, luck: random.Random, _: Path) -> None:
    """Change a digit, drop a line, or add one: what a person with an editor does."""
    lines = path.read_bytes().split(b"\n")
    place = luck.randrange(len(lines))
    digits = [index for index, byte in enumerate(lines[place]) if byte in b"123456789"]
    if digits and luck.random() < 0.6:
        changed = bytearray(lines[place])
        changed[luck.choice(digits)] ^= 1
        lines[place] = bytes(changed)
    elif luck.random() < 0.5:
        del lines[place]
    else:
        lines.insert(place, luck.choice(lines))
    path.write_bytes(b"\n".join(lines))


Damage = Callable[[Path, random.Random, Path], None]
DAMAGES: dict[str, Damage] = {"flip": flip, "cut": cut, "remove": remove, "swap": swap, "edit": edit}


def one_sentence(error: FedloomError) -> bool:
    return "\n" not in str(error) and len(str(error)) > 20


def check_damage(before: Path, whole: dict[str, bytes], damage: Damage, seed: int, place: Path) -> str:
    """Damage a copy of a folder, read and resume it; the result says how it went, or what is wrong."""
    shutil.copytree(before, place)
    luck = random.Random(seed)
    target = luck.choice(files(place))
    damage(target, luck, place)
    right = History.load(before)
    try:
        read = History.load(place)
        same = read.records == right.records[: len(read.records)] and read.config == right.config
        if not same or read.clients not in (right.clients, []):
            return f"other numbers were read after {target.relative_to(place)}"
    except FedloomError as error:
        if not one_sentence(error):
            return f"not a sentence: {error}"
    try:
        fl.resume(place, task=small_task())
    except FedloomError as error:
        return "sentence" if one_sentence(error) else f"not a sentence: {error}"
    found = written(place)
    wrong = [name for name in found.keys() | whole if found.get(name) != whole.get(name)]
    return "right bytes" if not wrong else f"other bytes in {wrong} after {target.relative_to(place)}"


@pytest.mark.parametrize("state", ["finished", "stopped"])
@pytest.mark.parametrize("kind", DAMAGES)
def test_random_damage_ends_in_the_right_bytes_or_in_a_sentence(folders, tmp_path, state, kind):
    check_many(folders, tmp_path, state, kind, range(4))


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("state", ["finished", "stopped"])
@pytest.mark.parametrize("kind", DAMAGES)
def test_fifty_random_damages_each_end_in_the_right_bytes_or_in_a_sentence(folders, tmp_path, state, kind):
    check_many(folders, tmp_path, state, kind, range(4, 54))


def check_many(folders: dict[str, Path], tmp_path: Path, state: str, kind: str, seeds: range) -> None:
    whole = written(folders["finished"])
    ends = {}
    for seed in seeds:
        place = tmp_path / str(seed)
        ends[seed] = check_damage(folders[state], whole, DAMAGES[kind], seed, place)
        shutil.rmtree(place)
    bad = {seed: end for seed, end in ends.items() if end not in ("right bytes", "sentence")}
    assert bad == {}
    assert "right bytes" in ends.values()


def test_a_flipped_bit_in_the_newest_checkpoint_costs_one_round(folders, tmp_path, caplog):
    shutil.copytree(folders["finished"], tmp_path / "run")
    flip(tmp_path / "run" / "checkpoints" / "round-000004.safetensors", random.Random(0), tmp_path)
    with pytest.raises(FedloomError, match=r"round-000004.safetensors is not what the run wrote .*fedloom resume"):
        History.load(tmp_path / "run")
    rounds: list[int] = []
    with caplog.at_level("WARNING", "fedloom"):
        fl.resume(tmp_path / "run", task=small_task(), observers=[lambda record: rounds.append(record["round"])])
    assert "continues from round 3" in caplog.text
    assert written(tmp_path / "run") == written(folders["finished"])


def test_an_edited_setting_is_refused(folders, tmp_path):
    shutil.copytree(folders["stopped"], tmp_path / "run")
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("lr = 0.1", "lr = 0.2"))
    with pytest.raises(FedloomError, match=r"config\.toml was changed since the run wrote it"):
        fl.resume(tmp_path / "run", task=small_task())


def test_a_removed_record_is_found(folders, tmp_path):
    shutil.copytree(folders["finished"], tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    lines = metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(FedloomError, match=r"metrics\.jsonl is not what the run wrote"):
        History.load(tmp_path / "run")


def test_a_removed_record_after_the_last_checkpoint_is_found(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fl.run(
            small_task(), "fedavg", out=tmp_path / "run", observers=[stop_after(3)], **(HOW | {"checkpoint_every": 100})
        )
    metrics = tmp_path / "run" / "metrics.jsonl"
    lines = metrics.read_bytes().splitlines(keepends=True)
    assert [record["round"] for record in History.load(tmp_path / "run").records] == [0, 1, 2, 3]
    metrics.write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(FedloomError, match="lacks a round"):
        History.load(tmp_path / "run")
    metrics.write_bytes(b"".join(lines).replace(b'"steps":', b'"steps":1', 1))
    with pytest.raises(FedloomError, match="line 1 is not what the run wrote"):
        History.load(tmp_path / "run")


def test_another_version_of_torch_is_refused(folders, tmp_path, monkeypatch):
    shutil.copytree(folders["stopped"], tmp_path / "run")
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    with pytest.raises(FedloomError, match=r"was started with torch .* and this is torch 2\.99\.0"):
        fl.resume(tmp_path / "run", task=small_task())


def test_without_a_whole_checkpoint_the_folder_is_refused(folders, tmp_path):
    shutil.copytree(folders["finished"], tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[5:])
    with pytest.raises(FedloomError, match="no earlier checkpoint is whole: restore the folder"):
        fl.resume(tmp_path / "run", task=small_task())
