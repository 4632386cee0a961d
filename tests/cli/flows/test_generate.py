"""``fedloom flows generate`` writes a corpus that the other commands and tasks read."""

from __future__ import annotations

import json

import pytest

from fedloom.tasks.flows import read_packed
from fedloom.tasks.flows.formats.read_corpus import read_folder
from fedloom.tasks.flows.synthetic.generator import generate

SMALL = ["flows", "generate", "--clients", "2", "--largest", "1000"]


@pytest.mark.slow
def test_a_folder_has_a_sub_folder_per_organisation_and_is_read_back(fedloom, tmp_path):
    done = fedloom(*SMALL, "--out", "corpus")
    assert done.returncode == 0, done.stderr
    assert "small" in done.stdout
    read, made = read_folder(tmp_path / "corpus"), generate(2, 1_000, 0)
    assert [held.name for held in read.organisations] == [held.name for held in made.organisations]
    assert [held.flows for held in read.organisations] == [held.flows for held in made.organisations]


@pytest.mark.slow
def test_one_file_keeps_the_extra_flows_too(fedloom, tmp_path):
    done = fedloom(*SMALL, "--seed", "0", "--out", "corpus.npz", "--json")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)["groups"]
    assert values["small"]["points"] == 80
    assert values["big"]["points"] == 1_000
    assert read_packed(tmp_path / "corpus.npz").organisations == generate(2, 1_000, 0).organisations


def test_what_exists_is_not_written_over(fedloom, tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "mine.txt").write_text("mine")
    done = fedloom(*SMALL, "--out", "corpus")
    assert done.returncode == 2
    assert "corpus exists already: name a new folder or file" in done.stderr


def test_too_many_clients_are_refused_before_anything_is_written(fedloom, tmp_path):
    done = fedloom("flows", "generate", "--clients", "40", "--out", "corpus")
    assert done.returncode == 2
    assert "clients=40: the synthetic corpus has from 1 to 33 clients" in done.stderr
    assert not (tmp_path / "corpus").exists()
