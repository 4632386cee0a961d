"""What is said to travel is what travels: the simulator's bytes, and the sites' own messages."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest
import torch

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.conformance.any_method import labelled_task
from fedloom.core.algorithm import exchanges, groups_of
from fedloom.core.task import Task
from fedloom.deploy.explain import explain
from fedloom.deploy.explanation import SCORING, SELECTION, WORK, Explanation
from fedloom.deploy.explanation_text import explanation_lines, explanation_text
from fedloom.deploy.protocol.reply_forms import reply_form
from fedloom.deploy.settings import ServerSettings
from fedloom.engines.inline import Inline
from fedloom.rounds.jobs import Job
from fedloom.rounds.loop import play_prelude, play_round
from fedloom.rounds.run_state import initial_state
from fedloom.runs.prepare import Prepared, prepare
from support.distillation import conv_task
from support.paths import REPOSITORY

WIDTH = 6 * 5 + 5 + 5 * 3 + 3
HEAD = 5 * 3 + 3
COSTS = ("bytes_down", "bytes_up", "bytes_between")


def three() -> Task:
    """Three clients of unequal size, of whom not all have all classes."""
    task = labelled_task()
    held = task.federation
    train, valid, test = (type(held.train).of([part[c] for c in range(3)]) for part in (held.train, held.valid, held.test))  # fmt: skip # noqa: E501
    return replace(task, federation=replace(held, train=train, valid=valid, test=test))


def ready(method: fl.Algorithm, rounds: int = 3, **settings: object) -> Prepared:
    values = {"rounds": rounds, "method": {"name": "mine"}, "local": {"epochs": 3, "batch_size": 8, "lr": 0.05}}
    return prepare(three(), method, resolve({**values, **settings}, "the test"))


def simulate(prepared: Prepared, rounds: int) -> list[dict[str, int]]:
    """What the simulator counts before the first round and in each."""
    run = prepared.composition
    engine, state = Inline(run.runtime()), initial_state(run)
    records = [play_prelude(run, engine, state), *(play_round(run, engine, state) for _ in range(rounds))]
    return [{name: record[name] for name in COSTS} for record in records]


METHODS = [
    fl.FedAvg(),
    fl.SCAFFOLD(),
    fl.FedRep(),
    fl.FedSeq(pretrain_epochs=2, passes=2),
    fl.FedProto(),
    fl.FedHybridAvgLG(threshold="auto", probe_rounds=2),
    fl.Local(),
]


def test_of_a_sum_is_said_that_it_hides_updates_and_what_it_costs():
    prepared = ready(fl.SCAFFOLD(), channel=[{"name": "securesum"}])
    (one,) = explain(prepared).of(1, WORK)
    sent = {tensor.name: tensor for tensor in one.up}
    assert "change" not in sent
    assert "c" not in sent
    assert sent["sum"].meaning == "what it sends, weighted and hidden: only the sum over sites is read"
    assert 3 * sent["sum"].bytes == pytest.approx(simulate(prepared, 1)[1]["bytes_up"], abs=3)
    assert {"row", "c", "sum"} == {tensor.name for tensor in one.down}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_the_bytes_are_those_that_the_simulator_counts(method):
    explanation = explain(ready(method))
    assert [{name: record[name] for name in COSTS} for record in explanation.records] == simulate(ready(method), 2)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_the_bytes_of_the_tensors_add_up_to_the_counted_ones(method):
    explanation = explain(ready(method))
    for number, record in enumerate(explanation.records):
        down = sum(len(e.clients) * p.bytes for e in explanation.of(number, WORK) for p in e.down if p.counted)
        assert down == record["bytes_down"] + record["bytes_between"]
        if not isinstance(method, fl.FedProto):  # whose classes count by who has them
            assert explanation.reply_bytes(number) == record["bytes_up"] + record["bytes_between"]


def test_selected_clients_and_the_selections_questions_are_counted_too():
    asks = {"name": "powerofchoice", "fraction": 0.4}
    explanation, (_, first, _) = (
        explain(ready(fl.FedAvg(), selection=asks)),
        simulate(ready(fl.FedAvg(), selection=asks), 2),
    )
    (question,) = explanation.of(1, SELECTION)
    assert [piece.name for piece in question.up] == ["loss", "score", "samples"]
    asked, worked = len(question.clients), len(explanation.of(1, WORK)[0].clients)
    assert worked < 3
    assert first["bytes_down"] == (asked + worked) * 4 * WIDTH == explanation.records[1]["bytes_down"]
    assert explanation.per_site(1, SELECTION, WORK)[0] == 2 * 4 * WIDTH
    assert "The selection asks" in "\n".join(explanation_lines(explanation))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_what_is_said_to_leave_is_what_a_site_answers(method):
    prepared = ready(method)
    explanation, run = explain(prepared), prepared.composition
    state = initial_state(run)
    play_prelude(run, Inline(run.runtime()), state)
    ids = [0, 1, 2] if groups_of(method, state.server) is None else [0]
    wave = next(method.play(state.server, ids, run.context(1)))
    result = run.runtime().do(Job("update", 1, wave.ids[:1], [0], measure=exchanges(method)), wave.message, {})
    said = explanation.of(1, WORK)[0].up
    form = reply_form(result)
    assert [piece.name for piece in said] == [name.removeprefix("reply/") for name in form]
    for piece, (dtype, shape) in zip(said, form.values(), strict=True):
        assert (f"torch.{piece.dtype}", (1, *piece.shape)) == (str(dtype), shape)


def test_what_fedrep_keeps_is_said_to_stay():
    explanation = explain(ready(fl.FedRep()))
    (one,) = explanation.of(1, WORK)
    assert [(p.name, p.shape, p.bytes) for p in one.down] == [("body", (WIDTH - HEAD,), 4 * (WIDTH - HEAD))]
    assert one.up[0].name == "body"
    assert list(explanation.kept) == ["head"]
    after = "\n".join(explanation_lines(explanation)).partition("What does not leave a site")[2]
    assert "its samples and their labels" in after
    assert "head: the model's head" in after


def test_a_stage_behind_the_method_keeps_its_model_at_the_site():
    explanation = explain(ready(fl.FedAvg(), prediction=["fedpredict"]))
    assert "fedpredict/row" in explanation.kept
    assert explanation.records == explain(ready(fl.FedAvg())).records


def test_the_whole_run_is_the_sum_of_its_parts():
    row, explanation = 4 * WIDTH, explain(ready(fl.FedAvg(), rounds=7, eval_every=3))
    assert explanation.scorings == 1 + 3  # before the first round, after rounds 3, 6 and 7
    update, scores = row + 3 * 8 + 4 * 8, 2 * 3 * 8  # on test parts and on validation parts
    assert explanation.whole_run == (7 * row + 4 * row + row, 7 * update + 4 * scores + explanation.greeting)
    silent = explain(ready(fl.FedAvg(), rounds=7, eval_every=0))
    assert silent.whole_run == (7 * row + row, 7 * (row + 3 * 8) + silent.greeting)
    assert "Models are never evaluated." in explanation_lines(silent)


def test_cross_site_scoring_lets_whole_models_leave_and_says_so():
    prepared = ready(fl.FedRep())
    server = ServerSettings(sites=["a", "b", "c"], cross_site=True, evaluator="judge")
    quiet, open_ = explain(prepared), explain(prepared, server)
    assert open_.whole_run[1] - quiet.whole_run[1] == 4 * WIDTH
    assert "leaves a site: that model, whole" in "\n".join(explanation_lines(open_))
    assert "judge gets the shared model" in "\n".join(explanation_lines(open_))
    assert "that model, whole" not in "\n".join(explanation_lines(quiet))


def test_fedproto_has_a_first_round_of_its_own_and_tells_that_counts_of_classes_leave():
    explanation = explain(ready(fl.FedProto()))
    text = "\n".join(explanation_lines(explanation))
    assert explanation.per_site(1, WORK)[0] == 0 < explanation.per_site(2, WORK)[0]
    assert "Every later round" in text
    assert "number of its samples of each class" in text


MEAN_STRIPS = "mean strips of the stages of all sites' models for the communal samples"
STRIPS = "the strips of its model's stages for the communal samples"
OUTPUTS = "its model's outputs for the communal samples"
MEAN_OUTPUTS = "mean outputs of all sites' models for the communal samples"
DISTILLATION: list[tuple[fl.Algorithm, dict[str, str], dict[str, str]]] = [
    (fl.FLD(), {"outputs": OUTPUTS}, {"outputs": MEAN_OUTPUTS}),
    (
        fl.FLD(common=False),
        {
            "means": "its model's mean outputs for each class of its own samples",
            "counts": "number of its samples of each class",
        },
        {
            "means": "mean outputs of all sites' models for each class of their own samples",
            "known": "the classes that any site has",
        },
    ),
    (
        fl.FLD(layer="penultimate", multi_loss="B"),
        {"features": "the inputs of its model's head for the communal samples", "strips": STRIPS},
        {
            "features": "mean inputs of the head of all sites' models for the communal samples",
            "strips": MEAN_STRIPS,
        },
    ),
    (
        fl.FedFMRL(multi_loss="A"),
        {"outputs": OUTPUTS, "strips": STRIPS},
        {
            "outputs": "a mixture of the outputs of all sites' models for the communal samples",
            "strips": MEAN_STRIPS,
        },
    ),
    (fl.FedFMRL(scheme="mean"), {"outputs": OUTPUTS}, {"outputs": MEAN_OUTPUTS}),
    (
        fl.FedRCIL(),
        {"outputs": "its model's outputs for the exemplars, which are communal samples"},
        {"outputs": "mean outputs of all sites' models for the exemplars"},
    ),
    (fl.FedMD(), {"outputs": OUTPUTS}, {"outputs": MEAN_OUTPUTS}),
    (
        fl.DSFL(),
        {"probabilities": "its model's probabilities for the communal samples"},
        {"probabilities": "mean probabilities of all sites' models for the communal samples, through a softmax"},
    ),
    (
        fl.DSFL(aggregation="sa"),
        {"probabilities": "its model's probabilities for the communal samples"},
        {"probabilities": "mean probabilities of all sites' models for the communal samples"},
    ),
    (
        fl.FedHARM(k=2),
        {"descriptors": "its model's descriptors of the communal samples"},
        {"descriptors": "mean descriptors of the communal samples, all sites"},
    ),
]


@pytest.mark.parametrize(("method", "up", "down"), DISTILLATION, ids=[repr(method) for method, _, _ in DISTILLATION])
def test_the_words_of_distillation_follow_its_mode(method, up, down):
    values = {"rounds": 2, "method": {"name": "mine"}, "local": {"batch_size": 8}}
    first, second = explain(prepare(conv_task(), method, resolve(values, "the test"))).of(1, WORK)
    assert {one.name: one.meaning for one in first.up if one.counted} == up
    assert {one.name: one.meaning for one in second.down} == down


@dataclass(frozen=True)
class Mine(fl.FedAvg):
    """A method of one's own, with tensors of its own."""

    def client_update(self, cohort, message):
        cohort.keep("secret", torch.zeros(len(cohort), 2))
        return fl.Reply({**super().client_update(cohort, message).tensors, "more": torch.zeros(len(cohort), 2, 3)})


def test_tensors_of_a_method_of_ones_own_are_listed_under_their_names():
    explanation = explain(ready(Mine()))
    more = next(piece for piece in explanation.of(1, WORK)[0].up if piece.name == "more")
    assert (more.shape, more.bytes, more.meaning) == ((2, 3), 24, "a tensor that the method defines, named more")
    assert "  secret: a tensor that the method defines, named secret" in explanation_lines(explanation)


def test_a_server_without_data_says_the_same_as_a_simulation():
    prepared = ready(fl.SCAFFOLD())
    held = prepared.composition.task.federation
    columns = {name: torch.zeros_like(column) for name, column in held.columns.items()}
    without_samples = replace(three(), federation=replace(held, columns=columns))
    assert explanation_lines(explain(prepare(without_samples, fl.SCAFFOLD(), prepared.config))) == explanation_lines(
        explain(prepared)
    )


def test_a_config_is_explained_as_a_text_that_fits_a_terminal():
    text = explanation_text(
        resolve({"task": {"name": "digits", "clients": 3}, "method": {"name": "scaffold"}, "rounds": 5})
    )
    assert text.startswith("What leaves a site and what reaches it: scaffold on digits, 3 sites, 5 rounds.")
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "control variate" in text


def test_scoring_goes_to_all_sites_or_to_the_drawn_ones():
    def number_scored(message: Explanation) -> int:
        return len(message.of(1, SCORING)[0].clients)

    assert number_scored(explain(ready(fl.FedAvg()))) == 3
    assert number_scored(explain(ready(fl.FedAvg(), eval_clients=2))) == 2


PRIVATE = {"noise": 4.0, "clip": 0.5}
MECHANISMS: dict[str, dict[str, object]] = {
    "plain": {},
    "`securesum`": {"channel": [{"name": "securesum"}]},
    "`ckks`": {"channel": [{"name": "ckks"}]},
    "`privatemean`": {"aggregation": {"name": "privatemean", **PRIVATE}, "eval_every": 0},
    "`localnoise`": {"channel": [{"name": "localnoise", **PRIVATE}], "eval_every": 0},
    "`privatesum`": {"channel": [{"name": "privatesum", **PRIVATE}], "eval_every": 0},
    "`sample_privacy`": {"sample_privacy": PRIVATE, "eval_every": 0},
    "`fedseq`": {"method": {"name": "fedseq"}},
}


def rows_of_what_a_site_sends() -> dict[str, tuple[set[str], set[str], set[str]]]:
    """The table of the page on trust: of its training, numbers beside it, and scores, by mechanism."""
    page = (REPOSITORY / "docs" / "trust.md").read_text()
    table = page.partition("<!-- what a site sends")[2].partition("<!-- end of what a site sends")[0]
    cells = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")][1:]
    named = [[cell.strip() for cell in row] for row in cells]
    return {row[0]: tuple(set(re.findall("`([^`]+)`", cell)) for cell in row[1:]) for row in named}  # type: ignore[misc]


def test_the_page_on_trust_has_all_mechanisms() -> None:
    assert rows_of_what_a_site_sends().keys() == MECHANISMS.keys()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_site_sends_what_the_page_on_trust_says(mechanism: str) -> None:
    if mechanism == "`ckks`":
        pytest.importorskip("tenseal", reason="TenSEAL is not installed: no homomorphic sum is made")
    values = {"task": {"name": "digits", "clients": 4}, "rounds": 2, "method": {"name": "fedavg"}}
    run = explain(resolve({**values, **MECHANISMS[mechanism]}, "the test"))
    names = {tensor.name for one in run.exchanges for tensor in one.up}
    counted = {tensor.name for one in run.exchanges for tensor in one.up if tensor.counted}
    beside = {"steps", "samples", "bytes"}
    assert rows_of_what_a_site_sends()[mechanism] == (counted, names & beside, names - counted - beside)
