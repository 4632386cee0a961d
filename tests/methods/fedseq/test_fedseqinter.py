"""FedSeqInter: models that run on over the rounds, by hand, and FedSeq where its period is one."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.seeds import generator
from fedloom.methods.fedseq.fedseq import OWN
from fedloom.runs.folder.checkpoint import load_checkpoint
from support.chains import CHAINS, SIZES, row_after_chain, six_clients
from support.checkpoints import WORK, final
from support.silent_clients import missing, play_run, prepare_run
from support.synthetic import distance


def test_a_running_model_has_seen_nothing_of_a_chain_that_did_not_answer(tmp_path):
    method = fl.FedSeqInter(chains=CHAINS, reshuffle=False)
    run = prepare_run(six_clients(), method, rounds=1, local=WORK, eval_every=0)
    play_run(run, missing(r1=CHAINS[1]), tmp_path / "run")
    seen = load_checkpoint(tmp_path / "run", 6).server[f"{OWN}seen"]
    sizes = [sum(SIZES[client] for client in chain) for chain in CHAINS]
    assert sorted(seen.tolist()) == sorted([0, sizes[0], sizes[2]])


def test_with_a_period_of_one_it_is_fedseq_to_rounding(tmp_path):
    settings = {"selection": {"number": 2}, "rounds": 4}
    plain = final(tmp_path / "seq", fl.FedSeq(chains=CHAINS), six_clients(), **settings)
    inter = final(tmp_path / "inter", fl.FedSeqInter(chains=CHAINS, period=1), six_clients(), **settings)
    assert distance(plain.server["row"], inter.server["row"]) < 1e-5


def by_hand(rounds: int, period: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Running models and their aggregate, all chains in every round, written out."""
    row, running, seen = six_clients().initial_row(), None, None
    sizes = torch.tensor([float(sum(SIZES[client] for client in chain)) for chain in CHAINS])
    for number in range(1, rounds + 1):
        if (number - 1) % period == 0:
            running, seen = row.repeat(3, 1), torch.zeros(3)
        order = torch.randperm(3, generator=generator(3, "running models", number)).tolist()
        running = torch.stack([row_after_chain(running[j], CHAINS[chain], number) for j, chain in enumerate(order)])
        seen = seen + sizes[order]
        row = seen / seen.sum() @ running
    return running, row


@pytest.mark.parametrize("period", [0, 2])
def test_models_run_on_until_the_period_ends_and_the_aggregate_is_only_looked_at(tmp_path, period):
    method = fl.FedSeqInter(chains=CHAINS, reshuffle=False, period=period)
    for rounds in (2, 3, 4):
        state = final(tmp_path / str(rounds), method, six_clients(), rounds=rounds)
        running, row = by_hand(rounds, period or 3)
        assert distance(running, state.server[f"{OWN}running"]) < 1e-5
        assert distance(row, state.server["row"]) < 1e-5


def test_the_running_models_change_hands():
    """Selected chains come sorted: without a draw the first model would always get the chain of the lowest number."""
    drawn = [torch.randperm(3, generator=generator(3, "running models", number)) for number in range(1, 20)]
    assert len({tuple(order.tolist()) for order in drawn}) > 3


class Fewer:
    """A selection whose number changes."""

    def __call__(self, pool):
        return fl.Choice(list(range(1 + pool.round % 2)))


def test_a_selection_of_changing_number_is_refused_between_resets():
    says = "has 2 running models and round 2 selected 1 chains: use a selection that always takes the same number"
    with pytest.raises(FedloomError, match=says):
        fl.run(six_clients(), fl.FedSeqInter(chains=CHAINS), rounds=3, selection=Fewer(), eval_every=0)
    fl.run(six_clients(), fl.FedSeqInter(chains=CHAINS, period=1), rounds=3, selection=Fewer(), eval_every=0)


def test_a_negative_period_is_refused():
    with pytest.raises(FedloomError, match="period=-1: it must be at least 0"):
        fl.FedSeqInter(period=-1)
