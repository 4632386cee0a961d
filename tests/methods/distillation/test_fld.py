"""FLD: its losses by hand, which parameters each of its steps moves, and what travels."""

import copy

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.model.stages import run_with_stages
from fedloom.core.objective import SquaredError
from fedloom.core.task import Task
from fedloom.core.trainer import LossStep
from fedloom.methods.distillation.fld import distances
from fedloom.methods.distillation.strips import all_strips, strips
from support.checkpoints import check_executions_and_workers_agree, final
from support.distillation import conv_task, replies_of, three_samples
from support.synthetic import cohort, distance, mlp, perturb, small_task

EXECUTIONS = ("loop", "vectorised")
ONE_STEP = LocalWork(steps=1, batch_size=0, lr=0.1)


def lesson_of(task, seed=1):
    """What a model with other weights says of the communal set."""
    other = copy.deepcopy(task.model)
    task.layout.fill(other, perturb(task.initial_row(), seed))
    with torch.no_grad():
        outputs, maps = run_with_stages(other, task.inputs(task.federation.communal))
    return Message({"outputs": outputs, "strips": all_strips(maps)})


def distil(method, task, execution, work, message, ids=None):
    some = cohort(task, execution, work, ids)
    return method.distil(some, some.spread(task.initial_row()), message)


def one_step(task, loss):
    """The initial row after one step down a loss of the task's model."""
    parameters = list(task.model.parameters())
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    return task.initial_row() - 0.1 * torch.cat([g.reshape(-1) for g in gradients])


def test_distances_by_hand():
    found = torch.tensor([[3.0, 4.0], [1.0, 1.0], [0.0, 2.0]])
    assert distances(found, torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.0, 5.0]])).tolist() == [5.0, 0.0, 3.0]


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_one_step_of_distillation_by_hand(execution):
    """Outputs (x, x) for x = 1, 2, 4, towards (x, 0): each distance is x and its slope (0, 1) times x."""
    task = three_samples()
    goal = torch.tensor([[1.0, 0.0], [2.0, 0.0], [4.0, 0.0]])
    rows = distil(fl.FLD(), task, execution, ONE_STEP, Message({"outputs": goal}))
    assert torch.allclose(rows, torch.tensor([[1.0, 1 - 0.1 * (1 + 2 + 4) / 3]]).expand(2, -1))


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_models_that_all_say_the_same_stay_as_they_are(execution):
    task = three_samples()
    goal = torch.tensor([[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]])
    rows = distil(fl.FLD(epochs=3), task, execution, LocalWork(batch_size=1), Message({"outputs": goal}))
    assert torch.equal(rows, task.initial_row().expand(2, -1))


def test_without_a_common_set_each_sample_is_drawn_to_the_mean_of_its_class():
    """Client 0 has 1 and 2 of class 0, whose mean is (0, 0); client 1 has 4 of class 1, which nobody knows."""
    message = Message({"means": torch.zeros(2, 2), "known": torch.tensor([True, False])})
    rows = distil(fl.FLD(common=False), three_samples(), "loop", ONE_STEP, message)
    step = 0.1 * (1 + 2) / 2 / 2**0.5
    assert torch.allclose(rows, torch.tensor([[1 - step, 1 - step], [1.0, 1.0]]))


def test_without_a_common_set_the_server_averages_by_class_and_count():
    """Client 0 has one sample of class 0, client 1 three of both: by counts 0.25 and 0.75 of class 0."""
    means = torch.tensor([[[4.0, 0.0], [0.0, 0.0]], [[8.0, 4.0], [1.0, 3.0]]])
    counts = torch.tensor([[1.0, 0.0], [3.0, 3.0]])
    state = fl.FLD(common=False).aggregate({}, replies_of({"means": means, "counts": counts}))
    assert state["means"].tolist() == [[7.0, 3.0], [1.0, 3.0]]
    assert state["known"].tolist() == [True, True]


def test_the_penultimate_layer_is_what_the_head_sees():
    task = conv_task()
    some = cohort(task, "loop", LocalWork())
    found = fl.FLD(layer="penultimate").knowledge(some, some.spread(task.initial_row()))
    assert found.keys() == {"features"}
    with torch.no_grad():
        assert torch.allclose(found["features"][1], task.model[:5](task.inputs(task.federation.communal)), atol=1e-6)
    goal = Message({"features": torch.zeros(len(task.federation.communal), 64)})
    rows = distil(fl.FLD(layer="penultimate"), task, "loop", ONE_STEP, goal)
    expected = one_step(task, task.model[:5](task.inputs(task.federation.communal)).norm(dim=1).mean())
    assert torch.allclose(rows[0], expected, atol=1e-6)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_multi_loss_a_is_one_step_on_the_sum_of_all_terms(execution):
    task = conv_task()
    message = lesson_of(task)
    outputs, (first, second) = run_with_stages(task.model, task.inputs(task.federation.communal))
    goals = message["strips"].split([strips(first).shape[1], strips(second).shape[1]], dim=1)
    of_stages = [(strips(z) - goal).norm(dim=1) for z, goal in zip((first, second), goals, strict=True)]
    loss = (outputs - message["outputs"]).norm(dim=1) + 0.3 * (of_stages[0] + of_stages[1]) / 2
    rows = distil(fl.FLD(multi_loss="A", m_c=0.3), task, execution, ONE_STEP, message)
    assert torch.allclose(rows[0], one_step(task, loss.mean()), atol=1e-5)


def test_multi_losses_b_and_c_go_through_the_stages_in_their_order():
    some, message = cohort(conv_task(), "loop", LocalWork()), lesson_of(conv_task())
    order = {name: [s.until for s in fl.FLD(multi_loss=name).kd_steps(some, message)] for name in ("none", *"ABC")}
    assert order == {"none": [None], "A": [None], "B": [None, 1, 2], "C": [None, 2, 1]}


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("stage", [1, 2])
def test_the_loss_of_a_stage_moves_only_what_comes_up_to_it(execution, stage):
    """Also with weight decay, which would move everything; the step is the gradient of m_c / L times the distance."""
    task = conv_task()
    message = lesson_of(task)
    step = fl.FLD(multi_loss="B", m_c=0.6).kd_steps(cohort(task, "loop", ONE_STEP), message)[stage]
    assert isinstance(step, LossStep)
    some = cohort(task, execution, LocalWork(steps=1, batch_size=0, lr=0.1, weight_decay=0.1))
    row = some.train(some.spread(task.initial_row()), on=task.federation.communal, steps=[step])[0]
    before, after = task.layout.views(task.initial_row()), task.layout.views(row)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {f"{layer}.{kind}" for layer in (0, 2)[:stage] for kind in ("weight", "bias")}
    _, maps = run_with_stages(task.model, task.inputs(task.federation.communal))
    goals = message["strips"].split([strips(z).shape[1] for z in maps], dim=1)
    loss = 0.6 / 2 * (strips(maps[stage - 1]) - goals[stage - 1]).norm(dim=1).mean()
    gradient = torch.autograd.grad(loss, task.model[0].weight)[0]
    expected = before["0.weight"] - 0.1 * (gradient + 0.1 * before["0.weight"])
    assert torch.allclose(after["0.weight"], expected, atol=1e-6)


def test_strips_without_weight_change_nothing():
    task = conv_task()
    message, work = lesson_of(task), LocalWork(batch_size=4)
    plain, *others = (
        distil(fl.FLD(multi_loss=name, m_c=0.0, epochs=2), task, "loop", work, message) for name in ("none", *"ABC")
    )
    assert all(distance(plain, other) < 1e-6 for other in others)


@pytest.mark.parametrize("multi_loss", "ABC")
def test_executions_agree_on_every_multi_loss(multi_loss):
    task = conv_task()
    message, work = lesson_of(task), LocalWork(batch_size=4, lr=0.05)
    method = fl.FLD(multi_loss=multi_loss, m_c=1.0)
    assert distance(*(distil(method, task, name, work, message) for name in EXECUTIONS)) < 1e-5


@pytest.mark.slow
def test_executions_and_workers_agree(tmp_path):
    check_executions_and_workers_agree(tmp_path, fl.FLD(multi_loss="B"), conv_task())


def test_what_travels_is_counted():
    """Up and down for each of three clients: 14 communal samples with 5 outputs and two stages of strips."""
    task = conv_task()
    width = 5 + 3 * (8 + 8) + 4 * (4 + 4)
    history = fl.run(task, fl.FLD(multi_loss="A"), rounds=1, local={"batch_size": 8}, eval_every=0)
    assert history.records[0]["bytes_up"] == history.records[0]["bytes_down"] == 3 * 14 * width * 4
    history = fl.run(three_samples(), fl.FLD(common=False), rounds=1, local={"batch_size": 8}, eval_every=0)
    assert history.records[0]["bytes_up"] == 2 * 4 * (2 * 2 + 2)
    assert history.records[0]["bytes_down"] == 2 * (4 * 2 * 2 + 2)


def test_clients_come_nearer_to_each_other_on_the_communal_set(tmp_path):
    task = conv_task()

    def spread(method):
        rows = final(tmp_path / str(method), method, task, rounds=4).client_states.rows["row"]
        outputs = cohort(task, "loop", LocalWork()).forward(rows, task.inputs(task.federation.communal))
        return float((outputs - outputs.mean(0)).square().mean())

    assert spread(fl.FLD(epochs=5)) < spread("local") / 2


def test_what_fld_cannot_use_is_refused_in_a_sentence():
    with pytest.raises(FedloomError, match="common=false exchanges mean outputs of classes"):
        fl.FLD(common=False, multi_loss="B")
    with pytest.raises(FedloomError, match="m_c=-1"):
        fl.FLD(m_c=-1.0)
    with pytest.raises(FedloomError, match="epochs=0"):
        fl.FLD(epochs=0)
    with pytest.raises(FedloomError, match="fld needs samples that the server and all clients have"):
        fl.run(small_task(), "fld", rounds=1)
    without_stages = Task("t", conv_task().federation, mlp(64))
    with pytest.raises(
        FedloomError,
        match="fld looks at the stages of a model, and Sequential names none: use --model resnet8",
    ):
        fl.FLD(multi_loss="B").check(without_stages, LocalWork())
    numbers = Task("t", three_samples().federation, three_samples().model, objective=SquaredError())
    numbers.federation.columns["y"] = numbers.federation.columns["y"].float()
    with pytest.raises(FedloomError, match="fld needs a class per sample"):
        fl.FLD(common=False).check(numbers, LocalWork())
