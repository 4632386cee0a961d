"""The GAN attack: who sees it, what its judges say, what it keeps, and what it learns."""

from dataclasses import dataclass
from math import exp, log1p

import pytest
import torch

import fedloom as fl
from fedloom.attacks.reconstruction.gan import GENERATOR, AddedOutput, FrozenModel, shuffled_within_tensors
from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.audits.generators_of_run import with_visits
from fedloom.core.errors import FedloomError
from fedloom.core.seeds import generator

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
SMALL = {"steps": 3, "batch_size": 8, "width": 4, "latent": 8}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=5, model="logistic")


def files_of(folder):
    return {name: (folder / name).read_bytes() for name in ("metrics.jsonl", "clients.json", "partition.json")}


def checkpoints_of(folder):
    return [path.read_bytes() for path in sorted((folder / "checkpoints").rglob("*.safetensors"))]


def visits_of(task, method="fedavg", rounds=2, **settings):
    found = []
    attack = with_visits(fl.GAN(**{"clients": [1], **SMALL, **settings}), found.append)
    fl.run(task, method, rounds=rounds, local=WORK, adversary=attack, eval_every=0)
    return found


@pytest.mark.parametrize("variant", ["added", "random"])
def test_a_client_that_only_learns_changes_no_byte_of_what_others_see(task, tmp_path, variant):
    fl.run(task, "fedavg", rounds=2, local=WORK, out=tmp_path / "plain")
    hidden = fl.run(
        task, "fedavg", rounds=2, local=WORK, out=tmp_path / "gan", adversary=fl.GAN(variant=variant, **SMALL)
    )
    files = files_of(tmp_path / "gan")
    told = b',"hostile":[1]'  # the record says who it was
    assert files["metrics.jsonl"].count(told) == 1
    files["metrics.jsonl"] = files["metrics.jsonl"].replace(told, b"")
    assert files_of(tmp_path / "plain") == files
    assert torch.equal(hidden.row, fl.run(task, "fedavg", rounds=2, local=WORK).row)


@pytest.mark.parametrize("variant", ["added", "original"])
def test_with_nobody_hostile_a_run_is_the_plain_run_to_the_byte(task, tmp_path, variant):
    fl.run(task, "fedavg", rounds=2, local=WORK, out=tmp_path / "plain")
    fl.run(task, "fedavg", rounds=2, local=WORK, out=tmp_path / "none", adversary=fl.GAN(fraction=0, variant=variant))
    assert files_of(tmp_path / "plain") == files_of(tmp_path / "none")
    assert checkpoints_of(tmp_path / "plain") == checkpoints_of(tmp_path / "none")


@pytest.mark.parametrize("variant", ["added", "original"])
def test_a_stopped_run_goes_on_with_the_same_generator_to_the_byte(task, tmp_path, variant):
    settings = {"local": WORK, "adversary": fl.GAN(clients=[1, 3], variant=variant, **SMALL), "checkpoint_every": 1}
    fl.run(task, "fedavg", rounds=3, out=tmp_path / "whole", **settings)
    fl.run(task, "fedavg", rounds=2, out=tmp_path / "parts", **settings)
    fl.resume(tmp_path / "parts", rounds=3)
    whole, parts = checkpoints_of(tmp_path / "whole"), checkpoints_of(tmp_path / "parts")
    assert whole[-1] == parts[-1]
    assert any(GENERATOR.encode() in one for one in whole), "the generators are in the checkpoints"


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["added", "original"])
def test_workers_change_no_byte(task, tmp_path, variant):
    settings = {"local": WORK, "adversary": fl.GAN(clients=[1, 3], variant=variant, **SMALL), "checkpoint_every": 1}
    fl.run(task, "fedavg", rounds=2, out=tmp_path / "one", **settings)
    fl.run(task, "fedavg", rounds=2, out=tmp_path / "two", workers=2, **settings)
    assert checkpoints_of(tmp_path / "one") == checkpoints_of(tmp_path / "two")


def test_a_generator_goes_on_from_visit_to_visit_and_each_attacker_has_its_own(task):
    one, other = sorted(visits_of(task, clients=[1, 3], rounds=1), key=lambda visit: visit.client)
    assert (one.client, other.client) == (1, 3)
    assert torch.equal(one.received, other.received)
    assert not torch.equal(one.generator, other.generator)
    first, second = visits_of(task, clients=[1])
    assert torch.equal(first.generator, one.generator), "what others do changes nothing"
    assert 0 < float((second.generator - first.generator).norm()) < float(first.generator.norm())


def test_it_learns_only_in_its_rounds_and_only_where_it_takes_part(task):
    assert [visit.round for visit in visits_of(task, rounds=4, start=2, stop=3)] == [2, 3]
    found = []
    attack = with_visits(fl.GAN(clients=[1], **SMALL), found.append)
    history = fl.run(task, "fedavg", rounds=6, local=WORK, adversary=attack, selection={"number": 2}, eval_every=0)
    there = [record["round"] for record in history.records if 1 in record.get("selected", [])]
    assert [visit.round for visit in found] == there
    assert 0 < len(there) < 6


def test_in_a_chain_the_model_of_the_client_before_is_the_judge(task):
    found, sent = [], {}
    chained = fl.FedSeq(chains=[[0, 1], [2, 3, 4]], reshuffle=False)

    @dataclass(frozen=True)
    class Server(fl.Adversary):
        def look_at_replies(self, wave, replies):
            sent.update(zip(replies.ids, replies["row"].clone(), strict=True))
            return {}

    settings = {"rounds": 1, "local": WORK, "eval_every": 0}
    fl.run(task, chained, adversary=with_visits(fl.GAN(clients=[1, 2], **SMALL), found.append), **settings)
    fl.run(task, chained, adversary=Server(), **settings)
    judges = {visit.client: visit.received for visit in found}
    assert torch.equal(judges[1], sent[0])
    assert torch.equal(judges[2], task.initial_row()), "the first of a chain has the server's model"


def test_the_judge_is_the_model_with_one_more_dense_output(task):
    """By hand: with the received model's outputs o, the loss of a made image is log(1 + exp(-(v . o + b)))."""
    row, draws = task.initial_row(), torch.Generator().manual_seed(0)
    judge = AddedOutput(task, row, 0.001, draws)
    image = inputs_of(task, task.sample)
    with torch.no_grad():
        outputs = task.model(image)[0].tolist()
        logit = sum(v * o for v, o in zip(judge.added[:-1].tolist(), outputs, strict=True)) + float(judge.added[-1])
        assert float(judge.loss(image)) == pytest.approx(log1p(exp(-logit)), rel=1e-5)
        before = float(judge.loss(image))
    for _ in range(20):
        judge.tell_apart(torch.zeros_like(image), image)
    assert float(judge.loss(image).detach()) > before, "it has learnt that this one is made"
    assert torch.equal(task.initial_row(), row), "the received model is copied"


def test_the_control_has_the_same_numbers_in_an_order_that_says_nothing(task):
    row = fl.run(task, "fedavg", rounds=2, local=WORK).row
    other = shuffled_within_tensors(task, row, torch.Generator().manual_seed(0))
    for slot in task.layout.slots:
        one, two = (some[slot.start : slot.stop] for some in (row, other))
        assert torch.equal(one.sort().values, two.sort().values)
    positions = task.federation.global_test

    def accuracy(some):
        task_model = torch.func.functional_call(task.model, task.layout.views(some), (task.inputs(positions),))
        return float((task_model.argmax(1) == task.targets(positions)).double().mean())

    assert accuracy(row) > 0.8
    assert accuracy(other) < 0.3


def test_the_original_makes_what_the_model_takes_for_the_target(task):
    """After one visit most of what it makes is of the class for the model that it got, whichever class is sought."""
    for target in (3, 8):
        attack = fl.GAN(clients=[1], variant="original", target=target, steps=60, batch_size=32, lr=0.01)
        found = []
        fl.run(task, "fedavg", rounds=1, local=WORK, adversary=with_visits(attack, found.append), eval_every=0)
        kind, (visit,) = attack.generators_for(task), found
        judge = FrozenModel(task, visit.received, target)
        new = kind.new_row(0)
        made, before = kind.pictures(visit.generator, 200), kind.pictures(new, 200)
        assert float(judge.loss(made)) < 0.5 < float(judge.loss(before))


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_the_original_adds_the_steps_on_what_it_made_to_its_change(task, scale):
    """By hand, for a linear model and one step: minus lr times (p - e_label) x' for the weights, on average."""
    lr, label, fakes = 0.1, 4, 16
    settings = {
        "rounds": 1,
        "local": {"epochs": 1, "batch_size": 0, "lr": lr},
        "selection": {"number": 1},
        "eval_every": 0,
    }
    attack = fl.GAN(clients=[0, 1, 2, 3, 4], variant="original", label=label, fakes=fakes, scale=scale, **SMALL)
    found = []
    poisoned = fl.run(task, "fedavg", adversary=with_visits(attack, found.append), **settings).row
    honest = fl.run(task, "fedavg", **settings).row
    (visit,) = found
    seed = fl.run(task, "fedavg", **settings).config["seed"]
    kind = attack.generators_for(task)
    noise = kind.noise(fakes, generator(seed, "fakes", 1, visit.client))
    with torch.no_grad():
        made = kind.images(kind.filled(visit.generator), noise)
        outputs = torch.func.functional_call(task.model, task.layout.views(honest), (made,))
        error = outputs.softmax(1) - torch.nn.functional.one_hot(torch.tensor([label] * fakes), 10)
    weight = -lr * scale * error.T @ made.flatten(1) / fakes
    views = task.layout.views(poisoned - honest)
    assert torch.allclose(views["head.weight"], weight, atol=1e-5)
    assert torch.allclose(views["head.bias"], -lr * scale * error.mean(0), atol=1e-5)


def test_a_task_without_images_is_refused_in_a_sentence():
    rows = fl.from_arrays(
        torch.randn(40, 6).numpy(), (torch.arange(40) % 2).numpy(), client=(torch.arange(40) % 4).numpy()
    )
    with pytest.raises(FedloomError, match="gan makes images, and task own has samples that are not images"):
        fl.run(fl.task_of(rows), "fedavg", rounds=1, adversary="gan")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"target": 10}, "gan: target=10: task digits has classes 0 to 9"),
        ({"variant": "original", "label": 12}, "gan: label=12"),
        ({"variant": "original", "target": 2, "label": 2}, "label and target are both 2"),
    ],
)
def test_classes_that_make_no_sense_are_refused(task, settings, said):
    with pytest.raises(FedloomError, match=said):
        fl.run(task, "fedavg", rounds=1, adversary=fl.GAN(**settings))


def test_a_method_without_a_whole_shared_model_is_refused(task):
    with pytest.raises(FedloomError, match="judges images by a whole model"):
        fl.run(task, "fedrep", rounds=1, adversary="gan")
