"""Distillation on a communal set: what a round of two waves does, whatever is distilled."""

from dataclasses import dataclass

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.methods.distillation.communal_distillation import CommunalDistillation
from support.checkpoints import final
from support.distillation import replies_of, three_samples
from support.synthetic import cohort, small_task


@dataclass(frozen=True)
class Untaught(CommunalDistillation):
    """Nothing is distilled."""

    def distil(self, cohort, rows, message):
        return rows


def test_knowledge_is_what_each_model_says_of_the_communal_set():
    """Models that multiply by (1, -1) and (10, -10), and the samples 1, 2 and 4."""
    some = cohort(three_samples(), "loop", LocalWork())
    found = Untaught().knowledge(some, torch.tensor([[1.0, -1.0], [10.0, -10.0]]))["outputs"]
    assert found[0].tolist() == [[1, -1], [2, -2], [4, -4]]
    assert found[1].tolist() == [[10, -10], [20, -20], [40, -40]]


def test_the_server_takes_the_mean_of_each_tensor_with_the_runs_weights():
    """One and three quarters of 1 and 10 are 7.75."""
    outputs = torch.tensor([[1.0, -1.0], [2.0, -2.0], [4.0, -4.0]])
    state = Untaught().aggregate({}, replies_of({"outputs": torch.stack([outputs, 10 * outputs])}))
    assert torch.allclose(state["outputs"], 7.75 * outputs)
    assert Untaught().lesson(state).shared.keys() == {"outputs"}


def test_without_distillation_this_is_local_training_to_the_byte(tmp_path):
    task = three_samples()
    local, other = (final(tmp_path / str(i), method, task) for i, method in enumerate(("local", Untaught())))
    assert torch.equal(local.client_states.rows["row"], other.client_states.rows["row"])


def test_the_mean_outputs_of_equal_linear_models_are_those_of_the_model():
    task = three_samples()
    some = cohort(task, "loop", LocalWork())
    rows = torch.tensor([[2.0, 3.0]]).expand(2, -1)
    state = Untaught().aggregate({}, replies_of(Untaught().knowledge(some, rows)))
    assert torch.equal(state["outputs"], some.forward(rows, task.inputs(torch.arange(3)))[0])


def test_only_outputs_travel_up_once_and_down_once():
    """Two clients, three samples, two outputs, four bytes each."""
    history = fl.run(three_samples(), Untaught(), rounds=2, local={"batch_size": 2}, eval_every=0)
    assert [record["bytes_up"] for record in history.records] == [2 * 3 * 2 * 4] * 2
    assert [record["bytes_down"] for record in history.records] == [2 * 3 * 2 * 4] * 2


def test_a_client_that_never_took_part_predicts_with_the_initial_model():
    task = three_samples()
    rows = Untaught().weights_for(Message(), cohort(task, "loop", LocalWork()))
    assert torch.equal(rows, task.initial_row().expand(2, -1))


def test_a_task_without_a_communal_set_is_refused():
    with pytest.raises(FedloomError, match=r"untaught needs samples .* set task.communal"):
        Untaught().check(small_task(), LocalWork())
