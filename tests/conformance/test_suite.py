"""Every method against its closed forms; and wrong methods, as they are found in the wild, are found out."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest
import torch
from typer.testing import CliRunner

import fedloom as fl
from fedloom.cli.app import app
from fedloom.conformance.any_method import GENERAL
from fedloom.conformance.claim import PRECISE
from fedloom.conformance.quadratics import STEPS, Quadratics, relative
from fedloom.conformance.shared_models import FEDAVG, OPTIMUM, OPTIMUM_FEW, PROBLEM
from fedloom.conformance.suite import SPECIFIC, conform, known_methods, unchecked_formula
from fedloom.core.cohort import Cohort
from fedloom.registry.kinds import METHODS

EVERY = dict(known_methods())


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_claim_of_a_methods_own_holds(name):
    errors = {claim.says: (claim.error(EVERY[name]), claim.within) for claim in SPECIFIC[name]}
    assert {says: error for says, (error, within) in errors.items() if not error <= within} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_claim_about_any_method_holds(name):
    errors = {claim.says: (claim.error(EVERY[name]), claim.within) for claim in GENERAL}
    assert {says: error for says, (error, within) in errors.items() if not error <= within} == {}


def test_every_method_has_a_claim_of_its_own():
    assert [name for name in METHODS if not SPECIFIC[name]] == []


@pytest.mark.slow
def test_fedrcil_is_compared_with_fld_of_its_own_settings():
    (claim,) = SPECIFIC["fedrcil"]
    method = fl.FedRCIL(layer="penultimate", multi_loss="B", m_c=0.5, epochs=2, exemplars=9, exemplar_epochs=1)
    assert claim.error(method) == 0


def test_the_points_that_are_told_apart_are_far_apart():
    optimum, fedavg, prox = PROBLEM.optimum, PROBLEM.fedavg().fixed_point, PROBLEM.fedprox(1.0).fixed_point
    for one, other in ((optimum, fedavg), (fedavg, prox), (optimum, prox)):
        assert relative(one, other) > 10 * PRECISE


def test_the_samples_of_a_quadratic_client_have_its_loss_and_gradient():
    problem = Quadratics.random(clients=3)
    task = problem.task()
    point = torch.tensor([0.3, -1.2, 2.0])
    from support.synthetic import cohort

    some = cohort(task, "loop", fl.LocalWork(lr=0.1, batch_size=0))
    losses = some.evaluate(some.spread(point), "train").mean_loss
    gradients = some.gradient(some.spread(point))
    for k in range(3):
        away = point.double().numpy() - problem.optima[k]
        assert float(losses[k]) == pytest.approx(0.5 * away @ problem.curvatures[k] @ away, rel=1e-5)
        assert relative(gradients[k], problem.curvatures[k] @ away) < 1e-5


def test_a_proximal_map_is_its_steps_one_by_one():
    start = PROBLEM.optima[1]
    point = start
    for _ in range(STEPS):
        point = PROBLEM.descent(0, near=0.7, at=start)(point)
    assert relative(PROBLEM.proximal(0, 0.7)(start), point) < 1e-12


# -- what is wrong in the wild


@dataclass(frozen=True)
class Ascending(fl.SCAFFOLD):
    """SCAFFOLD with the sign of its correction turned round."""

    def client_update(self, cohort: Cohort, message: fl.Message) -> fl.Reply:
        own = cohort.kept_rows("c", torch.zeros(len(cohort), message["c"].numel()))
        return super().client_update(cohort, fl.Message({"row": message["row"]}, {"c": 2 * own - message["c"]}))


@dataclass(frozen=True)
class Uncontrolled(fl.SCAFFOLD):
    """SCAFFOLD whose variates never move: it is FedAvg."""

    def aggregate(self, server, replies):
        return {**super().aggregate(server, replies), "c": server["c"]}

    def client_update(self, cohort: Cohort, message: fl.Message) -> fl.Reply:
        reply = super().client_update(cohort, message)
        cohort.keep("c", torch.zeros_like(reply.tensors["c"]))
        return reply


@dataclass(frozen=True)
class DeadTerm(fl.FedDyn):
    """FedDyn whose linear term has no gradient (as in the FedSeq repository)."""

    def client_update(self, cohort: Cohort, message: fl.Message) -> fl.Reply:
        reply = super().client_update(cohort, message)
        cohort.keep("g", torch.zeros_like(reply.tensors["row"]))
        return reply


@dataclass(frozen=True)
class BySelected(fl.FedDyn):
    """FedDyn whose h is divided by the selected clients, not by all."""

    def aggregate(self, server, replies):
        return super().aggregate(server, replace(replies, shares=replies.weights))


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [Ascending(option=1), Uncontrolled(), DeadTerm(alpha=1.0)])
def test_drift_control_that_is_wrong_does_not_reach_the_optimum(wrong):
    try:
        error = OPTIMUM.error(wrong)
    except fl.FedloomError:  # it diverged
        return
    assert error > 100 * PRECISE


def test_uncontrolled_scaffold_is_recognised_as_fedavg():
    assert FEDAVG.error(Uncontrolled()) < PRECISE


@pytest.mark.slow
def test_dividing_by_the_selected_clients_shows_with_few_of_them():
    assert OPTIMUM.error(BySelected(alpha=1.0)) < PRECISE
    with suppress(fl.FedloomError):  # it may diverge, which also shows
        assert OPTIMUM_FEW.error(BySelected(alpha=1.0)) > 100 * PRECISE


OWN = """
import fedloom as fl
from dataclasses import dataclass

@dataclass(frozen=True)
class Good(fl.FedAvg):
    pass

@dataclass(frozen=True)
class Forgetful(fl.FedAvg):
    def aggregate(self, server, replies):
        import random
        return {"row": replies.mean("row") * (1 + 1e-3 * random.random())}
"""


@pytest.mark.slow
def test_a_method_of_ones_own_is_named_by_its_file(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    result = CliRunner().invoke(app, ["conform", f"{tmp_path}/mine.py:Good", "--like", "fedavg", "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    findings = answer["claims"]
    assert answer["unchecked"] == []
    assert {finding["holds"] for finding in findings} == {True}
    assert any("FedAvg's biased fixed point" in finding["says"] for finding in findings)


@pytest.mark.slow
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["table", "json"])
def test_without_like_it_says_that_the_formula_of_ones_own_method_is_not_checked(tmp_path, form):
    (tmp_path / "mine.py").write_text(OWN)
    result = CliRunner().invoke(app, ["conform", f"{tmp_path}/mine.py:Good", *form])
    assert result.exit_code == 0, result.output
    words = json.loads(result.stdout)["unchecked"][0] if form else " ".join(result.stdout.split())
    assert "checked is that it runs, repeats, resumes" in words
    assert "nothing about its formula: use --like METHOD" in words


def test_claims_about_a_known_methods_formula_are_checked():
    assert unchecked_formula("scaffold") == unchecked_formula("mine.py:Mine", "scaffold") == ""


def test_a_method_with_a_hidden_state_is_found_out(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    result = CliRunner().invoke(app, ["conform", f"{tmp_path}/mine.py:Forgetful"])
    assert result.exit_code == 1
    assert "FAILS" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fedavgg"], "unknown method 'fedavgg'"),
        (["fedavg", "--like", "scafold"], "unknown method 'scafold'"),
        (["fedavg", "fedprox", "--like", "scaffold"], "name exactly one METHOD"),
    ],
)
def test_bad_input_gets_a_sentence(arguments, sentence):
    result = CliRunner().invoke(app, ["conform", *arguments])
    assert isinstance(result.exception, fl.FedloomError)
    assert sentence in str(result.exception)


def test_what_a_method_raises_is_shown_with_the_line_of_its_file_and_the_suite_goes_on(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nimport fedloom as fl\n\n\n"
        "@dataclass(frozen=True)\nclass Mine(fl.FedAvg):\n"
        "    def client_update(self, cohort, message):\n        return fl.Reply({'row': message['rows']})\n"
    )
    found = list(conform(METHODS.make(f"{tmp_path / 'mine.py'}:Mine"), "mine"))
    assert len(found) == 3
    assert not any(one.holds for one in found)
    assert {one.raised for one in found} == {"KeyError: 'rows' (mine.py, line 8)"}
