"""A site does what its own policy allows and nothing else, whatever the server asks; what it refuses is on record."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Statistic
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message, Reply
from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, pack, unpack
from fedloom.deploy.settings import PolicySettings, RequiredStep
from fedloom.deploy.site.policy import LOG, Policy
from fedloom.deploy.site.process import SiteProcess
from fedloom.methods.fedavg import FedAvg
from support.local_transport import Local, Plan, quick

pytestmark = pytest.mark.usefixtures(quick.__name__)
REFUSED = "refused by the site's policy: "
CHANNEL = [{"name": "topk", "fraction": 0.25}]


@cache
def plan(spec: str = "fedavg", through: bool = False, eval_every: int = 0) -> Plan:
    return Plan.of(spec, channel=CHANNEL if through else [], eval_every=eval_every)


def open_site(
    folder: Path, spec: str = "fedavg", through: bool = False, eval_every: int = 0, **policy: Any
) -> SiteProcess:
    local = Local(plan(spec, through, eval_every), folder)
    local.policy = PolicySettings(**policy)
    return local.site(1)


def ask(site: SiteProcess, kind: str, spec: str = "fedavg", **header: Any) -> tuple[SiteAnswer, dict[str, Any]]:
    """A site's answer to a request with the tensors that it needs."""
    algorithm, task = plan(spec).runtime.algorithm, plan(spec).runtime.training.task
    shared = algorithm.broadcast(algorithm.start(task), [1]).shared
    tensors = {f"shared/{name}": tensor for name, tensor in shared.items()}
    tensors |= {"rows": task.initial_row()[None]} if kind == "judge" else {}
    about = {"run": site.blueprint.plan_digest, "ticket": "t", "kind": kind, "round": 1}
    request = SiteRequest.model_validate(about | header)
    return unpack(site.answer(pack(request, tensors)), SiteAnswer, 1 << 40)


def refusals(site: SiteProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (site.folder / LOG).read_text().splitlines()]


def test_the_model_of_a_site_stays_there_unless_its_own_policy_says_otherwise(tmp_path, caplog):
    site = open_site(tmp_path)
    answer, tensors = ask(site, "model", round=3)
    assert answer.error == f"{REFUSED}the model that it predicts with may not leave (model = false)"
    assert tensors == {}
    (line,) = refusals(site)
    assert (line["request"], line["round"], line["run"]) == ("model", 3, site.blueprint.plan_digest)
    assert line["reason"] in caplog.text
    assert line["time"].endswith("+00:00")
    assert (site.folder / LOG).stat().st_mode & 0o777 == 0o600
    allowed = open_site(tmp_path / "other", model=True)
    ask(allowed, "finish", round=3)
    assert ask(allowed, "model", round=3)[1].keys() == {"row"}
    assert not (allowed.folder / LOG).exists()


@pytest.mark.parametrize(
    ("policy", "kinds", "reason"),
    [
        ({"updates": False}, ["update"], "what it trains may not leave"),
        ({"evaluation": False}, ["ask", "score", "judge"], "scores on its data may not leave"),
        ({"methods": ["scaffold"]}, ["hello", "update", "score"], "the method scaffold, and this run's is fedavg"),
        ({"methods": []}, ["hello", "update"], "it takes part in no method"),
        ({"runs": ["0" * 32, "local on digits"]}, ["hello", "update"], "it takes part in the runs 000"),
        ({"tensors": {"FedAvg": []}}, ["update"], "'row' of fedavg may not leave"),
        ({"channel": [{"name": "topk"}]}, ["hello", "update"], "must go through 'topk', which the run's channel does"),
        ({"channel": [{"name": "noise.py:Noise"}]}, ["hello"], "must go through 'noise.py:Noise'"),
    ],
)
def test_what_goes_beyond_the_policy_is_refused(tmp_path, policy, kinds, reason):
    site = open_site(tmp_path, **policy)
    for kind in kinds:
        answer, tensors = ask(site, kind)
        assert answer.error.startswith(REFUSED), kind
        assert reason in answer.error
        assert (answer.about, tensors) == ({}, {})  # not even how many samples it has
    assert [line["request"] for line in refusals(site)] == kinds


@pytest.mark.parametrize(
    "policy",
    [
        {
            "runs": ["fedavg on digits"],
            "methods": ["FedAvg", "fedprox"],
            "tensors": {"fedavg": ["row"], "scaffold": []},
        },
        {"rounds": 1},
        {"tensors": {"fedprox": []}, "model": True},
    ],
)
def test_what_the_policy_allows_is_answered_as_before(tmp_path, policy):
    site, usual = open_site(tmp_path, eval_every=1, **policy), open_site(tmp_path / "usual", eval_every=1)
    for kind in ("hello", "update", "score"):
        (answer, found), (_, wanted) = ask(site, kind), ask(usual, kind)
        assert answer.error == ""
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[name], wanted[name]) for name in found)


def test_a_run_can_be_named_by_its_digest(tmp_path):
    assert ask(open_site(tmp_path, runs=[plan().blueprint.digest]), "hello")[0].error == ""


def test_requests_of_another_run_are_refused(tmp_path):
    answer, _ = ask(open_site(tmp_path), "update", run="another")
    assert answer.error == f"{REFUSED}it belongs to a different run from the one in this site's folder"


def test_scores_that_go_with_an_update_are_withheld_and_the_update_is_not(tmp_path):
    (answer, found), (_, usual) = (
        ask(open_site(tmp_path / name, eval_every=1, evaluation=evaluation), "update", measure=True)
        for name, evaluation in (("a", False), ("b", True))
    )
    assert answer.error == ""
    assert torch.equal(found["reply/row"], usual["reply/row"])
    measured = [name for name in usual if name.startswith(("received/", "trained/"))]
    assert measured
    assert all(found[name].isnan().all() and not usual[name].isnan().any() for name in measured)
    assert found.keys() == usual.keys()


NOISE = {"name": "localnoise", "noise": 4.0, "clip": 0.5, "seeded": True}
PRIVATE = {"localnoise": {"channel": [NOISE]}, "sample_privacy": {"sample_privacy": {"noise": 1.0, "seeded": True}}}


@pytest.mark.parametrize("settings", PRIVATE.values(), ids=PRIVATE)
def test_what_has_no_noise_does_not_leave_a_private_run(tmp_path, settings):
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    local = Local(Plan.of("fedavg", **settings), tmp_path)
    local.policy = PolicySettings(model=True)
    site = local.site(1)
    for kind in ("ask", "score", "judge", "model"):
        assert "have no noise, and this run is private" in ask(site, kind)[0].error
    assert site.policy.forbids("finish") == ""
    assert "not scored in this run" in ask(site, "update", measure=True)[0].error  # it has eval_every = 0


# -- what the client half itself would send


@dataclass(frozen=True)
class Leaky(FedAvg):
    """Sends more than it says, where a client has more than a few samples."""

    leak: str = "undeclared"

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        tensors = dict(super().client_update(cohort, message).tensors)
        samples = cohort.task.federation.columns["x"][cohort.task.federation.train[1]].flatten(1)
        if self.leak == "undeclared":
            tensors["patients"] = samples[None]
        elif self.leak == "larger":
            tensors["row"] = torch.cat([tensors["row"], samples[:10].reshape(1, -1)], 1)
        return Reply(tensors | ({"size": samples[None]} if self.leak == "statistic" else {}))


@pytest.mark.parametrize(
    ("leak", "reason"),
    [
        ("undeclared", "fedavg sends 'patients', which it does not declare"),
        ("larger", "'reply/row' has 1,250 numbers, and 738 are expected"),
        ("statistic", "'reply/size' has"),
    ],
)
def test_what_the_method_does_not_declare_or_is_larger_than_it_should_be_never_leaves(tmp_path, leak, reason):
    method = Leaky(leak=leak)
    if leak == "statistic":
        object.__setattr__(method, "sends", {**FedAvg.sends, "size": Statistic("how many samples it has")})
    site = open_site(tmp_path)
    site = replace(site, runtime=replace(site.runtime, algorithm=method))
    answer, tensors = ask(site, "update")
    assert answer.error.startswith(REFUSED + reason)
    assert tensors == {}
    assert not answer.keeps


# -- least privacy: the channel that the site itself runs


def test_an_update_must_go_through_the_steps_that_the_policy_requires(tmp_path):
    enough = [RequiredStep(name="topk", most={"fraction": 0.5}), RequiredStep(name="topk", least={"fraction": 0.25})]
    answer, tensors = ask(open_site(tmp_path, through=True, channel=enough), "update")
    assert answer.error == ""
    assert tensors["reply/row"].shape[1] < len(plan().blueprint.initial)
    for number, (step, reason) in enumerate(
        [
            (RequiredStep(name="topk", most={"fraction": 0.1}), "the channel's topk has fraction = 0.25, above 0.1"),
            (RequiredStep(name="topk", least={"fraction": 0.5}), "the channel's topk has fraction = 0.25, below 0.5"),
        ]
    ):
        site = open_site(tmp_path / str(number), through=True, channel=[step])
        assert ask(site, "update")[0].error == REFUSED + reason


def test_a_required_sum_covers_everything_that_the_method_sends(tmp_path):
    local = Local(Plan.of("scaffold", channel=[{"name": "securesum"}]), tmp_path)
    local.policy = PolicySettings(channel=[RequiredStep(name="securesum", least={"bits": 16})])
    policy = local.site(0).policy
    assert [policy.forbids_run(), policy.forbids("update"), policy.forbids("sum")] == ["", "", ""]
    assert policy.forbids_tensor("sum") == ""
    local.policy = PolicySettings(channel=[RequiredStep(name="securesum", least={"bits": 24})])
    assert local.site(0).policy.forbids_run() == "the channel's securesum has bits = 20, below 24"
    local.policy = PolicySettings(tensors={"scaffold": ["change"]})
    assert local.site(0).policy.forbids("sum") == "'c' of scaffold may not leave"


def test_with_a_required_channel_nothing_leaves_beside_it_unless_it_is_named(tmp_path):
    required = [RequiredStep(name="topk")]
    site = open_site(tmp_path, "fedproto", through=False)
    sends = plan("fedproto").runtime.algorithm.sends
    policy = Policy.of(site.settings, site.blueprint, site.runtime)
    assert not policy.forbids("update")
    strict = replace(policy, settings=PolicySettings(channel=required))
    assert "would leave without the channel that its policy requires" in strict.forbids("update")
    named = replace(policy, settings=PolicySettings(channel=required, tensors={"fedproto": list(sends)}))
    assert not named.forbids("update")


# -- a policy that makes no sense is said when the site starts


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (
            {"tensors": {"fedavg": ["rwo"]}},
            "unknown tensor of fedavg in tensors of site south: policy in site.toml: 'rwo'",
        ),
        ({"tensors": {"fedavgg": ["row"]}}, "unknown method in tensors of site south: policy in site.toml: 'fedavgg'"),
        ({"methods": ["fedavgg"]}, "unknown method in methods of site south: policy in site.toml: 'fedavgg'"),
        ({"channel": [{"name": "topp"}]}, "unknown step in channel of site south: policy in site.toml: 'topp'"),
        ({"channel": [{"name": "topk", "least": {"noise": 1.0}}]}, "unknown setting of topk in channel of site south"),
    ],
)
def test_a_policy_that_names_what_does_not_exist_is_one_sentence(tmp_path, policy, says):
    site = open_site(tmp_path, **policy)
    with pytest.raises(FedloomError) as error:
        Policy.of(site.settings, site.blueprint, site.runtime)
    assert says in str(error.value)


# -- over a whole run


def test_the_server_hears_that_a_site_refused_and_why_and_goes_on_without_it(tmp_path):
    local = Local(plan(), tmp_path)
    local.policy = PolicySettings(rounds=1)
    local.sites[1] = local.site(1)
    history = local.play()
    excluded = [(r["round"], one["name"], one["reason"]) for r in history.records for one in r.get("excluded", ())]
    reason = f"{REFUSED}it has taken part in 1 rounds, and no more are allowed"
    assert excluded == [(2, "south", reason), (3, "south", reason)]
    assert [line["round"] for line in refusals(local.sites[1])] == [2, 3]


def test_a_site_that_refuses_the_run_is_not_let_in_and_its_reason_is_known(tmp_path):
    local = Local(plan(), tmp_path)
    local.policy = PolicySettings(methods=["scaffold"])
    local.sites[1] = local.site(1)
    local.server()
    assert local.roster is not None
    assert local.roster.refused == {1: f"{REFUSED}it takes part in the method scaffold, and this run's is fedavg"}
