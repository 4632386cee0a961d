"""Encrypted chains that are lost in a round are named in its record, and count nothing."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.rounds.exchange.chain_loss import LOST
from support.chains import row_after_chain, six_clients
from support.checkpoints import WORK
from support.silent_clients import play_run, prepare_run

CHAINS = [[4, 0, 2], [1, 3, 5]]


def play(method: fl.FedSeq, *silent: int) -> fl.History:
    run = prepare_run(six_clients(), method, rounds=1, local=WORK, execution="loop")
    return play_run(run, lambda job: job.kind == "update" and job.ids[0] in silent)


def lost_in(history: fl.History) -> list[tuple[int, str]]:
    remarks = history.records[-1].get("remarks", ())
    return [(one["client"], one["reason"]) for one in remarks if one["what"] == LOST]


@pytest.mark.parametrize("silent", CHAINS[0])
def test_a_chain_with_a_silent_member_is_named_and_counts_nothing(silent):
    history = play(fl.FedSeq(chains=CHAINS, reshuffle=False, encrypt=True), silent)
    expected = row_after_chain(six_clients().initial_row(), CHAINS[1], execution="loop")
    assert torch.allclose(history.row, expected)
    [(client, reason)] = lost_in(history)
    assert client == silent
    assert reason.startswith("chain 0 does not count in this round: no model came from")


def test_an_open_chain_goes_on_without_its_silent_member():
    history = play(fl.FedSeq(chains=CHAINS, reshuffle=False), 0)
    assert not lost_in(history)
    assert history.records[-1]["selected"] == [1, 2, 3, 4, 5]


def test_a_round_without_any_chain_that_came_to_its_end_is_given_up():
    with pytest.raises(FedloomError, match="no chain came to its end"):
        play(fl.FedSeq(chains=CHAINS, encrypt=True), 0, 3)
