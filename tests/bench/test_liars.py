"""The lies of bench/liars.py are what its table calls them."""

from __future__ import annotations

import math

import pytest
import torch

pytest.importorskip("cryptography", reason="cryptography is not installed: a site's process cannot be made")
import liars

DOWN = {"shared/row": torch.tensor([1.0, 2.0])}
SENT = {"reply/row": torch.tensor([[4.0, 6.0]]), "samples": torch.tensor([7])}  # a change of (3, 4), of norm 5


def told(change: liars.Change) -> torch.Tensor:
    made = change(dict(SENT), DOWN, torch.Generator().manual_seed(0))
    assert torch.equal(made["samples"], SENT["samples"])
    return made["reply/row"]


def test_a_change_times_a_factor_starts_from_the_model_that_came_down():
    assert told(liars.moved(-2)).tolist() == [[-5.0, -6.0]]
    assert told(liars.moved(0)).tolist() == [[1.0, 2.0]]


def test_noise_has_the_size_that_it_is_called_after():
    away = told(liars.noise(10)) - DOWN["shared/row"]
    assert float(away.norm()) == pytest.approx(50, rel=1e-5)


def test_a_stale_model_is_that_of_the_round_before():
    change = liars.stale()
    assert told(change).tolist() == [[1.0, 2.0]]
    made = change(dict(SENT), {"shared/row": torch.tensor([9.0, 9.0])}, torch.Generator())
    assert made["reply/row"].tolist() == [[1.0, 2.0]]


def test_other_lies_and_the_settings_that_they_are_told_in():
    assert told(liars.filled("row", 1e29)).tolist() == [[pytest.approx(1e29)] * 2]
    assert told(liars.scaled("row", -3)).tolist() == [[-12.0, -18.0]]
    cases = list(liars.cases())
    assert len({(case.setting, case.lie) for case in cases}) == len(cases)
    for setting in {case.setting for case in cases}:
        same = [case for case in cases if case.setting == setting]
        assert len({(case.method, case.sites, str(case.settings), str(case.task)) for case in same}) == 1
    assert math.isinf(max(case.claim or 0 for case in cases))
