"""A site counts what it spends of its privacy before an answer leaves, and keeps its budget itself."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from fedloom.core.errors import FedloomError
from fedloom.deploy.site.policy import Refused
from fedloom.deploy.site.privacy_count import FILE, PrivacyCount
from fedloom.privacy.client_ledger import LocalLedger, SampleLedger, SumLedger
from fedloom.privacy.private_sum import PrivateSum
from support.local_transport import Local, Plan, Sent, quick, simulate, tamper_with

pytest.importorskip("dp_accounting", reason="needs dp-accounting")
pytestmark = pytest.mark.usefixtures(quick.__name__)

LEDGER = LocalLedger(4.0, 1e-5, budget=LocalLedger(4.0, 1e-5).epsilon(1, 3))
NOISE = {"name": "localnoise", "noise": 4.0, "clip": 0.5, "seeded": True}


@cache
def plan(**changes: float) -> Plan:
    return Plan.of("fedavg", channel=[{**NOISE, **changes}], sample_privacy={"noise": 1.0, "seeded": True})


def spent(folder: Path) -> dict[str, int]:
    return {name: one["uses"] for name, one in json.loads((folder / FILE).read_bytes()).items() if name != "digest"}


def test_an_answer_over_the_budget_is_not_sent_also_after_a_restart(tmp_path):
    for used in (1, 2, 3):
        count = PrivacyCount.read(tmp_path, {"local": LEDGER}, 50)
        count.spend(7)
        assert spent(tmp_path) == {"local": used}
    with pytest.raises(Refused, match="budget"):
        count.spend(7)
    with pytest.raises(Refused, match="budget"):
        PrivacyCount.read(tmp_path, {"local": LEDGER}, 50).spend(7)
    assert spent(tmp_path) == {"local": 3}  # what does not leave costs nothing


def test_uses_that_cost_something_else_are_not_added_up(tmp_path):
    """Eight uses at noise 1 and one at noise 20 are not nine at noise 20."""
    PrivacyCount.read(tmp_path, {"local": LocalLedger(1.0, 1e-5)}, 50).spend(7)
    before = (tmp_path / FILE).read_bytes()
    for other in (
        {"local": LocalLedger(20.0, 1e-5)},
        {"local": LocalLedger(1.0, 1e-5, mechanisms=2)},
        {"local": LocalLedger(1.0, 1e-5), "sample": SampleLedger(1.0, 1e-5, 10)},
        {"sample": SampleLedger(1.0, 1e-5, 10)},
    ):
        with pytest.raises(FedloomError, match=r"spent with localnoise.noise 1.0 on 1 tensors, .* or use a new folder"):
            PrivacyCount.read(tmp_path, other, 50)
    assert (tmp_path / FILE).read_bytes() == before
    same = PrivacyCount.read(tmp_path, {"local": LocalLedger(1.0, 1e-6, budget=99.0)}, 70)
    assert same.uses == {"local": 1}  # what is left, and at which delta, is not what it cost


def test_samples_drawn_at_another_rate_cost_something_else(tmp_path):
    PrivacyCount.read(tmp_path, {"sample": SampleLedger(1.0, 1e-5, 10)}, 50).spend(7)
    with pytest.raises(FedloomError, match=r"noise 1.0 at rate 0.2, and the plan has .* at rate 0.1,"):
        PrivacyCount.read(tmp_path, {"sample": SampleLedger(1.0, 1e-5, 10)}, 100)


def test_a_sum_costs_the_same_with_more_sites(tmp_path):
    few, more, wide = (
        SumLedger(PrivateSum().shares(width, sites), 1e-5) for width, sites in ((9, 3), (9, 30), (99, 3))
    )
    assert few != more
    assert few.epsilon(50, 2) == more.epsilon(50, 2)
    PrivacyCount.read(tmp_path, {"sum": few}, 50).spend(7)
    assert PrivacyCount.read(tmp_path, {"sum": more}, 50).uses == {"sum": 1}
    with pytest.raises(FedloomError, match="99 integers"):
        PrivacyCount.read(tmp_path, {"sum": wide}, 50)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"local": "x"}', b'{"local": 3}', b'{"local": {"uses": 3}}'])
def test_a_damaged_count_is_one_sentence(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(FedloomError, match="is damaged"):
        PrivacyCount.read(tmp_path, {"local": LEDGER}, 50)
    assert PrivacyCount.read(tmp_path, {}, 50).uses == {}  # a run without noise does not care


def test_a_changed_count_is_refused(tmp_path):
    """A smaller number would let a site spend its budget twice."""
    PrivacyCount.read(tmp_path, {"local": LEDGER}, 50).spend(7)
    text = (tmp_path / FILE).read_text()
    for changed in (text.replace('"uses":1', '"uses":0'), text.replace("4.0", "5.0"), text[:-1] + " }"):
        assert changed != text
        (tmp_path / FILE).write_text(changed)
        if json.loads(changed) == json.loads(text):
            PrivacyCount.read(tmp_path, {"local": LEDGER}, 50)  # the same values, written otherwise
            continue
        with pytest.raises(FedloomError, match=r"is damaged .its digest differs., so it is not known .* restore it"):
            PrivacyCount.read(tmp_path, {"local": LEDGER}, 50)


def test_a_site_that_has_lost_its_count_sends_nothing_and_says_why(tmp_path):
    deployment = Local(plan(), tmp_path, min_clients=2, retries=0)
    assert not any((deployment.folder / name / FILE).exists() for name in deployment.names)  # new: nothing is spent

    def lose() -> None:
        (deployment.folder / "south" / FILE).unlink()
        deployment.sites[1] = deployment.site(1)  # it starts again

    history = deployment.play(after={1: lose})
    reasons = [one["reason"] for record in history.records[1:] for one in record["excluded"]]
    assert len(reasons) == 2
    assert all("spent.json is missing, although this site was asked before" in reason for reason in reasons)
    assert not (deployment.folder / "south" / FILE).exists()
    with pytest.raises(FedloomError, match=r"restore it from a copy, or take part with a new folder"):
        deployment.site(1).privacy  # noqa: B018 (what opening a site does)


def test_a_site_that_died_before_it_counted_its_first_answer_is_not_refused(tmp_path):
    deployment = Local(plan(), tmp_path, min_clients=2, retries=0)
    deployment.sites[1].privacy.spend = lambda _: 1 / 0  # type: ignore[method-assign]
    deployment.transport.meddle = tamper_with(1, 1, lambda _: None)

    def restart() -> None:
        deployment.sites[1] = deployment.site(1)

    history = deployment.play(after={1: restart})
    assert [record["selected"] for record in history.records] == [[0, 2], [0, 1, 2], [0, 1, 2]]


# -- a budget that ends mid-run (fault 65)


def budget(channel: str, rounds: int) -> dict[str, Any]:
    """A channel whose budget lasts for this many rounds."""
    part: dict[str, Any] = {"name": channel, "noise": 4.0, "clip": 0.5, "seeded": True}
    made = Plan.of("fedavg", channel=[part], eval_every=0)
    (ledger,) = made.prepared.composition.client_privacy.values()
    return {**part, "epsilon": 1.0001 * ledger.spent([400], [rounds])}


@pytest.mark.parametrize("channel", ["localnoise", "privatesum"])
def test_a_run_whose_budgets_are_spent_ends_with_that_reason_and_its_last_model(channel, tmp_path):
    pytest.importorskip("cryptography", reason="needs cryptography")
    made = Plan.of("fedavg", channel=[budget(channel, 2)])
    deployment, simulated = Local(made, tmp_path), simulate(made)
    if channel == "privatesum":
        deployment.certify()
    history = deployment.play()
    reason = "the privacy budgets of 3 of 3 clients do not last for round 3: the model of round 2 is the last"
    assert history.stopped == simulated.stopped
    assert history.stopped.startswith(reason)
    assert [record["round"] for record in history.records] == [1, 2]
    assert torch.allclose(history.row, simulated.row, atol=1e-6)


def test_the_budget_of_samples_ends_a_run_with_that_reason_too(tmp_path):
    noise = {"noise": 1.0, "seeded": True}
    (ledger,) = Plan.of("fedavg", sample_privacy=noise).prepared.composition.client_privacy.values()
    sizes = plan().runtime.training.task.federation.train.sizes.tolist()
    most = ledger.spent(sizes, [2 * -(-size // 256) for size in sizes])
    made = Plan.of("fedavg", sample_privacy={**noise, "epsilon": 1.0001 * most})
    history = Local(made, tmp_path, min_clients=3).play()
    assert "privacy budgets" in history.stopped
    assert len(history.records) == 2


def test_one_spent_budget_leaves_its_site_out_and_the_others_go_on(tmp_path):
    made = Plan.of("fedavg", channel=[budget("localnoise", 3)])
    deployment = Local(made, tmp_path, retries=0)
    deployment.sites[1].privacy.spend(1)  # of an answer in an earlier run
    history = deployment.play()
    assert history.stopped is None
    assert [record["selected"] for record in history.records] == [[0, 1, 2], [0, 1, 2], [0, 2]]
    (left,) = history.records[2]["excluded"]
    assert "its privacy budget does not last for another answer" in left["reason"]


def test_a_deployed_private_run_is_the_simulated_one_and_sites_count_what_they_sent(tmp_path):
    deployment, simulated = Local(plan(), tmp_path), simulate(plan())
    history = deployment.play()
    assert torch.allclose(history.row, simulated.row, atol=1e-6)
    for name in ("privacy/local_epsilon", "privacy/sample_epsilon"):
        assert history.series(name) == simulated.series(name)
    sizes = plan().runtime.training.task.federation.train.sizes.tolist()
    steps = [3 * -(-size // 256) for size in sizes]
    assert [spent(deployment.folder / name) for name in deployment.names] == [{"sample": s, "local": 3} for s in steps]


def test_a_deployed_sum_with_shares_of_noise_is_the_simulated_one(tmp_path):
    pytest.importorskip("cryptography", reason="needs cryptography")
    made = Plan.of("fedavg", channel=[{"name": "privatesum", "noise": 4.0, "clip": 0.5, "seeded": True}])
    deployment, simulated = Local(made, tmp_path), simulate(made)
    deployment.certify()
    history = deployment.play()
    assert torch.equal(history.row, simulated.row)
    assert history.series("privacy/sum_epsilon") == simulated.series("privacy/sum_epsilon")
    assert [spent(deployment.folder / name) for name in deployment.names] == [{"sum": 3}] * 3


def test_an_answer_that_was_lost_counts_at_its_site(tmp_path):
    deployment = Local(plan(), tmp_path, min_clients=2, retries=0)
    deployment.transport.meddle = tamper_with(1, 2, lambda _: None)
    deployment.play()
    assert spent(deployment.folder / "south")["local"] == 3


def test_answers_of_a_round_that_was_abandoned_count_at_the_server_and_at_their_sites(tmp_path):
    deployment, answers = Local(plan(), tmp_path, min_clients=3, retries=1), list[bytes]()

    def lose_first(sent: Sent) -> bytes:
        answers.append(sent.answer)
        return sent.answer if len(answers) > 1 else b""

    deployment.transport.meddle = tamper_with(1, 2, lose_first)
    history = deployment.play()
    assert len(answers) == 2
    assert [spent(deployment.folder / name)["local"] for name in deployment.names] == [4, 4, 4]
    assert history.last("privacy/local_epsilon") == LocalLedger(4.0, 1e-5).epsilon(1, 4)  # of those that arrived twice


def test_scores_that_sites_would_send_are_refused_when_a_deployment_is_made():
    with pytest.raises(FedloomError, match="eval_every = 0"):
        Plan.of("fedavg", channel=[NOISE], eval_every=1)
