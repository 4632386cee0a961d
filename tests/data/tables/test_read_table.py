"""A table as a federation: clients, targets, and features that no test sample has a part in."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.data.read import names_clients
from support.messy_tables import write_messy


def test_medians_and_levels_are_those_of_the_training_samples(tmp_path: Path) -> None:
    path = write_messy(tmp_path / "a.csv")
    first = fl.read(path, target="days", client="site")
    train = set(first.train.order.tolist())
    lines = path.read_text().splitlines()
    rows = [line for line in lines[1:] if line]
    with_target = [place for place, line in enumerate(rows) if line.split(";")[-1]]
    for sample, place in enumerate(with_target):
        if sample not in train:
            index, age, ward, day, site, days = rows[place].split(";")
            rows[place] = ";".join([index, "900" if age else "", "elsewhere" if ward else "", day, site, days])
    path.write_text("\n".join([lines[0], *rows]) + "\n")
    again = fl.read(path, target="days", client="site")
    assert again.plan == first.plan
    order = first.train.order
    assert torch.equal(first.columns["x"][order], again.columns["x"][order])
    assert not torch.equal(first.columns["x"], again.columns["x"])


def test_what_is_done_is_said_in_notes(tmp_path: Path) -> None:
    notes = fl.read(write_messy(tmp_path / "a.csv"), target="days", client="site").notes
    assert notes[0].startswith("column 'days' is a number (its values are not whole numbers)")
    assert "3 rows without a target are left out" in notes
    for start in ("(no name): left out", "age: a number; missing ones", "ward: a category", "day: a date"):
        assert any(note.startswith(start) for note in notes), notes


def test_a_plain_table_of_numbers_is_encoded_as_it_is(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    lines = ["a,b,c,label", *(",".join([*map(repr, map(float, row)), str(n % 2)]) for n, row in enumerate(x))]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    made, plain = fl.read(tmp_path / "a.csv", clients=10), fl.from_arrays(x, np.arange(60) % 2, clients=10)
    assert torch.equal(made.columns["x"], plain.columns["x"])
    assert torch.equal(made.train.order, plain.train.order)
    assert fl.task_of(made).prepare == fl.task_of(plain).prepare


def test_indicators_stay_0_and_1_and_numbers_are_standardised(tmp_path: Path) -> None:
    task = fl.task_of(fl.read(write_messy(tmp_path / "a.csv"), target="days", client="site"))
    inputs, plan = task.inputs(task.federation.train.order), task.federation.plan
    marks = torch.tensor(plan.indicators)
    assert set(inputs[:, marks].unique().tolist()) == {0.0, 1.0}
    steady = torch.tensor([name.endswith(": hour") for name in plan.features])
    assert inputs[:, ~marks & ~steady].mean(0).abs().max() < 1e-4
    assert (inputs[:, ~marks & ~steady].std(0, correction=0) - 1).abs().max() < 1e-3


def test_a_folder_with_a_table_per_client_has_these_clients(tmp_path: Path) -> None:
    whole = fl.read(write_messy(tmp_path / "a.csv"), target="days", client="site")
    header, *rows = (tmp_path / "a.csv").read_text().splitlines()
    (tmp_path / "sites").mkdir()
    names = header.split(";")
    for site in whole.names:
        own = [row.split(";") for row in rows if row and row.split(";")[4] == site]
        text = [";".join(cell for place, cell in enumerate(row) if place != 4) for row in [names, *own]]
        (tmp_path / "sites" / f"{site}.csv").write_text("\n".join(text))
    made = fl.read(tmp_path / "sites", target="days")
    assert list(made.names) == list(whole.names)
    assert made.points.tolist() == whole.points.tolist()


def test_a_class_per_word(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    words = {"Anna": "PER", "Bo": "PER", "Rome": "LOC", "sees": "O", "leaves": "O", "today": "O"}
    lines = ["text,tags,label"]
    for _ in range(80):
        chosen = draw.choice(list(words), size=draw.integers(2, 6))
        lines.append(f"{' '.join(chosen)},{' '.join(words[word] for word in chosen)},x")
    (tmp_path / "a.csv").write_text("\n".join(lines))
    made = fl.read(tmp_path / "a.csv", target="tags", kind="tokens", ignore=["label"], clients=2)
    assert list(made.class_names) == ["LOC", "O", "PER"]
    assert made.columns["x"].shape == made.columns["y"].shape == (80, 5)
    history = fl.run(fl.task_of(made), rounds=8, eval_every=8, local={"lr": 0.5, "batch_size": 8})
    assert history.last("global_model/global_test/accuracy") > 0.95


def test_alpha_on_data_with_clients_asks_what_is_meant(tmp_path: Path) -> None:
    path = write_messy(tmp_path / "a.csv")
    with pytest.raises(FedloomError, match=r"has the client column 'site': leave alpha out.*partition dirichlet"):
        fl.task("own", path=str(path), target="days", client_column="site", alpha=0.1)
    assert names_clients(path) == ""
    assert names_clients(tmp_path) == "has a file per client"
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 1)), y=np.arange(4) % 2, client=np.zeros(4))
    assert names_clients(tmp_path / "a.npz") == "has the array 'client'"


def test_two_runs_on_a_messy_table_are_the_same_to_the_byte(tmp_path: Path) -> None:
    path = write_messy(tmp_path / "a.csv")
    rows = [
        fl.run(fl.task("own", path=str(path), target="days", client_column="site"), rounds=2, workers=workers).row
        for workers in (1, 2)
    ]
    assert torch.equal(*rows)


def test_a_federation_that_is_changed_keeps_its_plan(tmp_path: Path) -> None:
    made = fl.read(write_messy(tmp_path / "a.csv"), target="days", client="site")
    assert replace(made, title="other").plan == made.plan
