"""Who is refused with whom: a run is refused, before any work, if one part needs what another one breaks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.config.compatibility import check_compatibility
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Facts
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.training.local_trainer import LocalTrainer
from support.plain_sums import PlainSum
from support.synthetic import federation, mlp, small_task

DROPOUT = {"federated_dropout": {"keep": 0.5}}
NOISE = {"name": "localnoise", "noise": 4.0, "clip": 0.5}
POISSON = {"name": "poisson", "rate": 0.5}
PRIVATE = {"selection": POISSON, "aggregation": {"name": "privatemean", "noise": 1.0, "clip": 0.5}}
DPSGD = {"sample_privacy": {"noise": 1.0, "clip": 1.0}}


@pytest.fixture(autouse=True)
def _no_training(monkeypatch):
    monkeypatch.setattr(LocalTrainer, "train", lambda *_: pytest.fail("it trained"))


def check_refusal(words: str, method: object = "fedavg", task: Task | None = None, **settings: object) -> None:
    """A run is refused in one sentence that has these words, in this order."""
    with pytest.raises(FedloomError, match=words) as caught:
        fl.run(task or small_task(), method, rounds=2, **settings)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


# -- sub-models


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        ("scaffold", {}, "federated_dropout cuts one model .* scaffold lets clients keep, get or send something else"),
        ("fedrep", {}, "federated_dropout cuts one model .* fedrep shares a part of the model only"),
        ("feddyn", {}, "federated_dropout cuts one model .* feddyn lets clients keep, get or send something else"),
        ("fedseq", {}, "federated_dropout cuts .* fedseq lets clients"),
        ("local", {}, "federated_dropout cuts one model .* local sends nothing"),
        ("fedavg", {"channel": ["topk"]}, "topk keeps what it did not send .* federated_dropout lets a client train"),
        (
            "fedavg",
            {"channel": [{"name": "localnoise", "seeded": True}]},
            "localnoise adds noise to whole updates, and federated_dropout lets a client train other weights",
        ),
        ("fedavg", {"channel": ["securesum"]}, "securesum adds changes of one model.* federated_dropout sends other"),
        ("fedavg", {"channel": ["cmfl"]}, "cmfl compares an update .* federated_dropout lets a client train other"),
        (
            "fedavg",
            {"sample_privacy": {"noise": 1.0, "seeded": True}},
            "sample_privacy adds noise .* federated_dropout",
        ),
        ("fedavg+lastlocalmodel", {}, "lastlocalmodel keeps the model .* federated_dropout lets a client train other"),
    ],
)
def test_with_federated_dropout(method, settings, words):
    check_refusal(words, method, **DROPOUT, **settings)


# -- noise of clients


@dataclass(frozen=True)
class SendsMore(fl.FedAvg):
    """Sends something that gets no noise."""

    sends = {**fl.FedAvg.sends, "sizes": fl.Statistic("how many samples it has")}  # noqa: RUF012

    def client_update(self, cohort, message):
        reply = super().client_update(cohort, message)
        return fl.Reply({**reply.tensors, "sizes": cohort.samples.float()[:, None]})


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        ("scaffold", {}, "localnoise adds noise to updates.* scaffold lets clients send c, which is not an update"),
        ("ifca", {}, "localnoise adds noise to updates.* ifca lets clients send choice, which is not an update"),
        ("fedprox:adaptive=true", {}, "localnoise adds .* fedprox lets clients send loss, which is not an update"),
        ("fedseq", {}, "localnoise adds .* fedseq lets clients send pretrained, which is not an update"),
        (SendsMore(), {}, "localnoise adds .* sendsmore lets clients send sizes, which is not an update"),
        ("fedproto", {}, "localnoise acts on updates .* fedproto sends no update of a model: leave it out"),
        ("local", {}, "localnoise acts on what clients send, and local sends nothing: leave it out"),
        ("fedavg", {"selection": "powerofchoice"}, "localnoise .* selection powerofchoice looks at what clients have"),
        ("fedavg", {"channel": [NOISE, "cmfl"]}, "localnoise does not protect .* cmfl lets clients withhold"),
    ],
)
def test_with_noise_of_clients(method, settings, words):
    check_refusal(words, method, **{"channel": [NOISE], **settings})


# -- a private mean


@dataclass(frozen=True)
class Pairs(fl.FedAvg):
    """Selects pairs of clients, and does not promise that they are known before the run."""

    def groups(self, server):
        return server["pairs"]


@dataclass(frozen=True)
class Peeks(fl.FedAvg):
    """Uses a single client's model, and inherits FedAvg's promise not to."""

    def aggregate(self, server, replies):
        return {**server, "row": replies["row"][0]}


MORE = "uses, with these settings, more of its clients' replies than their mean"


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        *((spec, {}, f"privatemean .* {spec} {MORE}") for spec in ("scaffold", "feddyn", "fedproto", "fedseq")),
        ("fedprox:adaptive=true", {}, f"privatemean .* fedprox {MORE}"),
        (
            "fedseq:grouping=random",
            {},
            "privatemean does not protect what groups .* fedseq forms the chains itself: give",
        ),
        (Peeks(), {}, f"privatemean .* peeks {MORE}: .*grants = \\(fl.Fact.ONLY_MEANS,\\)"),
        (SendsMore(), {}, f"privatemean .* sendsmore {MORE}"),
        (Pairs(), {}, "privatemean does not protect what groups .* pairs forms the groups itself: use fedseq with"),
        ("local", {}, "privatemean makes one update .* local sends nothing: leave it out"),
        ("fedavg", {"selection": "powerofchoice"}, "privatemean .* selection powerofchoice looks at what clients have"),
    ],
)
def test_with_a_private_mean(method, settings, words):
    check_refusal(words, method, **{**PRIVATE, **settings})


# -- the privacy of samples


@dataclass(frozen=True)
class PeeksAtLosses(fl.FedAvg):
    """Sends a loss beside its model, and inherits FedAvg's promise to send nothing but what was trained."""

    def client_update(self, cohort, message):
        reply = super().client_update(cohort, message)
        loss = cohort.evaluate(cohort.spread(message["row"]), "train").mean_loss
        return fl.Reply({**reply.tensors, "loss": loss.float()[:, None]})


LOOKS = "lets clients, with these settings, look at their samples in other ways than training"


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        *((spec, {}, f"sample_privacy .* {spec} {LOOKS}") for spec in ("moon", "fedsgd", "perfedavg", "ifca")),
        ("fedproto", {}, f"sample_privacy .* fedproto {LOOKS}"),
        ("fedprox:adaptive=true", {}, f"sample_privacy .* fedprox {LOOKS}"),
        ("scaffold:option=1", {}, f"sample_privacy .* scaffold {LOOKS}"),
        (PeeksAtLosses(), {}, f"sample_privacy .* peeksatlosses {LOOKS}"),
        ("fedavg", {"selection": "powerofchoice"}, "sample_privacy .* selection powerofchoice looks at what clients"),
        ("fedavg", {"execution": "compiled"}, "execution compiled .* sample_privacy .* use execution vectorised"),
    ],
)
def test_with_the_privacy_of_samples(method, settings, words):
    check_refusal(words, method, **DPSGD, **settings)


class HasGraphs(nn.Linear):
    """A model that says that its samples cannot be stacked."""

    unequal = "graphs of different sizes"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"model": nn.Sequential(nn.Linear(20, 5), nn.BatchNorm1d(5))},
            "BatchNorm1d '1', which mixes .* use GroupNorm",
        ),
        ({"model": HasGraphs(20, 5)}, "task t has samples that are nodes .* use a task with independent samples"),
        (
            {"augment": lambda x, generator: x + torch.rand(x.shape, generator=generator)},
            "task t has an augmentation, .* leave off task.augment",
        ),
    ],
)
def test_with_tasks_whose_samples_have_no_gradient_of_their_own(changes, words):
    task = replace(Task("t", federation([40, 25, 12]), mlp()), **changes)
    check_refusal(f"sample_privacy clips the gradient of each sample, and .*{words}", "fedavg", task, **DPSGD)


# -- sums


@dataclass(frozen=True)
class Curious(fl.Adversary):
    def look_at_replies(self, wave, replies):
        return {"row": float(replies["row"].sum())}


@dataclass(frozen=True)
class OwnMean(fl.Mean):
    """Uses a single row, and inherits the promise of the mean not to."""

    def __call__(self, rows, weights, context):
        return rows[0]


ONLY = "plainsum lets only sums of replies leave"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"channel": [PlainSum(), fl.TopK()]}, "plainsum adds rows as they are, and topk codes the rows"),
        ({"channel": [fl.TopK(), PlainSum()]}, "plainsum adds rows as they are, and topk codes the rows"),
        ({"aggregation": "median"}, f"{ONLY}, and median needs single updates: .* mean takes sums"),
        ({"aggregation": OwnMean()}, f"{ONLY}, and ownmean needs single updates: .* mean takes sums"),
        ({"weight_by": "steps"}, f"{ONLY}, and weight_by = steps weights .* set weight_by to samples or uniform"),
        ({"adversary": Curious()}, f"{ONLY}, and curious looks at single updates"),
        ({"adversary": "alie"}, f"{ONLY}, and alie looks at single updates"),
    ],
)
def test_with_a_sum(settings, words):
    check_refusal(words, **{"channel": [PlainSum()], **settings})


# -- clients with different models


@pytest.mark.parametrize(
    ("method", "settings"),
    [("local", DPSGD), ("heterofl", DROPOUT), ("heterofl", {"downlink": {"precision": "float16"}})],
)
def test_with_different_models(method, settings):
    task = fl.task("digits", clients=2, models={"mlp": [0], "logistic": [1]})
    (key,) = settings
    words = (
        rf"clients with different models \(mlp, logistic\), and {key} is made for one model: leave it out, or task\.m"
    )
    check_refusal(words, method, task, **settings)


def test_an_aggregator_without_a_mean_to_make():
    check_refusal(
        "ownmean makes one update of those of all clients, and local sends nothing", "local", aggregation=OwnMean()
    )


# -- a part that nobody knows


@pytest.mark.parametrize("step", ["securesum", "ckks", {"name": "privatesum", "seeded": True}])
@pytest.mark.parametrize("selector", ["powerofchoice", "oort"])
def test_a_selector_that_asks_single_clients_for_losses_goes_with_no_sum(step, selector):
    if step == "ckks":
        pytest.importorskip("tenseal", reason="TenSEAL is not installed: no homomorphic sums")
    check_refusal(f"and selection {selector} looks at what clients have", "fedavg", channel=[step], selection=selector)


@dataclass(frozen=True)
class Naps(fl.ChannelStep):
    """A user's step after which some clients do not answer; no part of the library knows it."""

    grants: ClassVar[Collection[fl.Fact]] = (fl.Fact.ADDABLE,)
    breaks: ClassVar[Facts] = {fl.Fact.ALL_ANSWER: "lets clients sleep: let them wake up"}


@pytest.mark.parametrize(
    ("method", "settings", "needs"),
    [
        ("fedavg", {"channel": [Naps(), fl.SecureSum()]}, "securesum adds the updates of all clients that it asked"),
        ("fedavg", {**PRIVATE, "channel": [Naps()]}, "privatemean does not protect who is silent, .*"),
        ("fedavg", {"channel": [NOISE, Naps()]}, "localnoise does not protect who sends nothing, .*"),
        ("fedavg", {"channel": [Naps()], "downlink": {"delta": True}}, "downlink with delta needs to know .*"),
        ("fedseq", {"channel": [Naps()]}, "fedseq plays with groups of clients, .*"),
    ],
)
def test_a_part_of_a_users_own_is_refused_by_parts_that_do_not_know_it(method, settings, needs):
    check_refusal(f"^{needs}, and naps lets clients sleep: let them wake up\\.$", method, **settings)


def test_a_part_of_a_users_own_runs_where_nobody_needs_what_it_breaks():
    check_compatibility(resolve({"channel": [Naps()]}), FedAvg(), small_task(), "loop", deployed=False)


# -- overrides


class HalfTrust(fl.Aggregator):
    """A user's rule that trusts clients by what others sent, and does not say so."""

    def trust(self, rows, context):
        return (rows.norm(dim=1) <= rows.norm(dim=1).median()).double()


class Shrink(fl.Aggregator):
    """A user's rule that mixes rows by what others sent, and does not say so."""

    def mix(self, rows, context):
        return rows - rows.mean(0)


class EvenTrust(HalfTrust):
    grants: ClassVar[Collection[fl.Fact]] = (fl.Fact.OWN_INFLUENCE,)


class OtherNoise(fl.PrivateMean):
    def __call__(self, rows, weights, context):
        return weights @ rows


class OtherLocalNoise(fl.LocalNoise):
    def encode(self, rows, sender):
        return rows, {}


class Poisoned(fl.Adversary):
    def poison_message(self, wave, context):
        return wave.message


def test_a_trust_of_a_users_own_goes_before_no_private_mean_until_it_promises():
    private = {"selection": "poisson", "eval_every": 0}
    for rule in (HalfTrust(), Shrink()):
        check_refusal(
            f"and {rule.name} has a trust, or mixes rows, in a way of its own, which may depend on what others sent",
            "fedavg",
            **{**PRIVATE, "aggregation": [rule, "privatemean"]},
        )
    config = resolve({**private, "aggregation": [EvenTrust(), "privatemean"]})
    check_compatibility(config, FedAvg(), small_task(), "loop", deployed=False)


def test_a_part_with_other_code_than_its_ledger_counts_is_refused():
    check_refusal("^othernoise overrides __call__, and the ledger of privatemean", "fedavg", aggregation=OtherNoise())
    check_refusal(
        "^otherlocalnoise overrides encode, and the client_ledgers of localnoise",
        "fedavg",
        channel=[OtherLocalNoise()],
    )


def test_a_server_that_may_send_other_bytes_to_each_client_goes_with_no_sum():
    check_refusal(
        "and poisoned may send other bytes to each client",
        "fedavg",
        channel=["securesum"],
        adversary=Poisoned(),
    )
