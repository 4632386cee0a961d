"""The form of every answer is known before it comes, from a rehearsal without data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.config.resolve import method_from_config, resolve
from fedloom.conformance.any_method import task_for
from fedloom.conformance.suite import known_methods
from fedloom.core.facts import Fact, needed_facts
from fedloom.core.message import Message
from fedloom.core.task import Task
from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy.protocol.reply_forms import ReplyForms, majority_form, rehearse, reply_form
from fedloom.engines.inline import Inline
from fedloom.registry.kinds import METHODS
from fedloom.rounds.evaluation import score_models
from fedloom.rounds.jobs import Job
from fedloom.rounds.loop import play_prelude, play_round
from fedloom.rounds.run_state import initial_state
from fedloom.runs.prepare import prepare
from support.site_tasks import blueprint_of, south
from support.synthetic import federation, mlp

EVERY = dict(known_methods())
ROW = 6 * 5 + 5 + 5 * 3 + 3


def without_samples(task: Task) -> Task:
    """The task as a server knows it: every sample is zeros (a graph stays as it is)."""
    held = task.federation
    if hasattr(held, "graphs"):
        return task
    columns = {name: torch.zeros_like(column) for name, column in held.columns.items()}
    return replace(task, federation=replace(held, columns=columns))


class ComparingEngine(Inline):
    """Does every job client by client, as sites do, and holds each answer against what was rehearsed."""

    def __init__(self, runtime, forms: ReplyForms) -> None:
        super().__init__(runtime)
        self.forms, self.wrong, self.unknown, self.asked = forms, [], set(), set()

    def run(self, jobs, message, kept):
        return [self._one_by_one(job, message, kept) for job in jobs]

    def _one_by_one(self, job, message, kept):
        if job.kind == "global":
            self._hold(job, message, self.runtime.do(job, message, kept))
            return self.runtime.do(job, message, kept)
        parts = []
        for client, place in zip(job.ids, job.places, strict=True):
            alone = replace(job, ids=[client], places=[place])
            parts.append(self.runtime.do(alone, message, kept))
            self._hold(alone, message, parts[-1])
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def _hold(self, job, message, result) -> None:
        form, what = self.forms.of(job, message), (job.kind, *message.shared, *message.each)
        self.asked.add(what)
        if form is None:
            self.unknown.add(what)
        elif form != reply_form(result):
            self.wrong.append((what, form, reply_form(result)))


def compare_with_rehearsal(task: Task, method: fl.Algorithm, rounds: int = 2, **settings: object) -> ComparingEngine:
    """Some rounds of a method on a task, each answer held against its rehearsal on the task without samples."""
    values = {"rounds": rounds, "eval_every": 1, **settings}
    run = prepare(task, method, resolve(values, "the test")).composition
    shadow = prepare(without_samples(task), method, resolve(values, "the test")).composition
    engine, state = ComparingEngine(run.runtime(), ReplyForms(shadow.runtime())), initial_state(run)
    play_prelude(run, engine, state)
    for _ in range(rounds):
        play_round(run, engine, state)
        score_models(run, engine, state)
    return engine


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_every_answer_of_every_method_has_the_rehearsed_form(name, execution):
    task, work = task_for(EVERY[name])
    seen = compare_with_rehearsal(task, EVERY[name], local=work, execution=execution)
    assert seen.wrong == []
    assert {kind for kind, *_ in seen.asked} >= {"update", "score"}
    on_graphs = {("update", "ask"), ("update", "draw", "anchors")}  # what only clients kept goes into these
    assert seen.unknown == (on_graphs if Fact.GRAPHS in needed_facts(EVERY[name]) else set())


QUICK = [
    fl.SCAFFOLD(),
    fl.FedRep(),
    fl.FedProto(),
    fl.FedSeq(pretrain_epochs=1, max_clients=2),
    fl.FedHybridAvgLG(threshold="auto", probe_rounds=2),
]


@pytest.mark.parametrize("method", QUICK, ids=lambda method: type(method).__name__)
def test_every_answer_has_the_rehearsed_form(method):
    task, work = task_for(method)
    asks = {"name": "powerofchoice", "fraction": 0.4}
    seen = compare_with_rehearsal(task, method, local=work, selection=asks, clients_on_global=True)
    assert (seen.wrong, seen.unknown) == ([], set())
    assert {kind for kind, *_ in seen.asked} >= {"update", "score", "ask"}


def test_a_client_without_a_test_sample_and_one_with_a_single_sample_have_the_same_form():
    held = federation([1, 9, 30])
    held = replace(held, test=type(held.test).of([[], [3], [12, 13]]))
    seen = compare_with_rehearsal(Task("unequal", held, mlp()), fl.FedAvg())
    assert (seen.wrong, seen.unknown) == ([], set())


def fedavg_forms(**settings: object) -> tuple[ReplyForms, Task]:
    task = task_for(fl.FedAvg())[0]
    return ReplyForms(
        prepare(without_samples(task), fl.FedAvg(), resolve(settings, "the test")).composition.runtime()
    ), task


def test_the_form_of_an_answer_is_what_leaves_and_nothing_that_is_kept():
    result = {"reply/row": torch.zeros(1, 3), "kept/c": torch.zeros(1, 3), "kept/c/has": torch.ones(1)}
    assert reply_form(result) == {"reply/row": (torch.float32, (1, 3))}


def test_fedavgs_answer_is_a_row_and_three_numbers():
    forms, task = fedavg_forms()
    found = forms.of(Job("update", 1, [2], [0]), Message({"row": task.initial_row()}))
    number = (torch.int64, (1,))
    assert found == {"reply/row": (torch.float32, (1, ROW)), "steps": number, "samples": number, "bytes": number}


def test_a_rehearsal_is_made_once_for_messages_that_look_alike(monkeypatch):
    forms, task = fedavg_forms()
    row, calls = task.initial_row(), []
    monkeypatch.setattr("fedloom.deploy.protocol.reply_forms.rehearse", lambda *given: calls.append(given))
    for client, number in ((0, 1), (3, 2)):
        forms.of(Job("update", number, [client], [0]), Message({"row": row + number}))
    assert len(calls) == 1
    forms.of(Job("update", 1, [0], [0], measure=True), Message({"row": row}))
    forms.of(Job("update", 1, [0], [0], turn=1), Message({"row": row}))
    forms.of(Job("update", 1, [0], [0]), Message({"row": row, "phase": torch.tensor(0)}))
    forms.of(Job("update", 1, [0], [0]), Message({"row": row, "phase": torch.tensor(1)}))
    forms.of(Job("score", 1, [0], [0]), Message({"row": row}))
    forms.of(Job("update", 1, [0], [0]), Message({"row": row[1:]}))
    assert len(calls) == 7


@dataclass(frozen=True)
class Stubborn(fl.FedAvg):
    """A method whose clients only train what they kept, which no server has."""

    def client_update(self, cohort, message):
        return fl.Reply({"row": cohort.kept["own"].rows})


def test_what_cannot_be_rehearsed_is_unknown_and_said_once(caplog):
    task = task_for(fl.FedAvg())[0]
    forms = ReplyForms(prepare(without_samples(task), Stubborn(), resolve({}, "the test")).composition.runtime())
    with caplog.at_level("INFO", "fedloom"):
        for number in (1, 2):
            assert forms.of(Job("update", number, [0], [0]), Message({"row": task.initial_row()})) is None
    assert caplog.text.count("cannot rehearse") == 1


def test_a_rehearsal_takes_two_samples_and_changes_nothing_of_the_shop():
    forms, task = fedavg_forms(local={"epochs": 50, "lr": 0.1})
    assert int(forms.runtime.training.task.federation.train.sizes.max()) == 2
    assert forms.runtime.setting.work.epochs == 1
    assert torch.equal(forms.runtime.training.task.federation.points, task.federation.points)
    runtime = prepare(task, fl.FedAvg(), resolve({}, "the test")).composition.runtime()
    job, message = Job("update", 1, [0], [0]), Message({"row": task.initial_row()})
    before = runtime.do(job, message, {})
    result = rehearse(runtime, job, message)
    assert result is not None
    assert reply_form(result) == reply_form(before)
    ReplyForms(runtime).of(job, message)
    assert torch.equal(runtime.do(job, message, {})["reply/row"], before["reply/row"])


def test_the_form_of_more_than_half_is_the_agreed_one():
    one, other = {"row": (torch.float32, (1, 3))}, {"row": (torch.float32, (1, 4))}
    assert majority_form([one, dict(one), other]) == one
    assert majority_form([one]) == one
    assert majority_form([one, other]) is None
    assert majority_form([]) is None
    both = {"b": (torch.int64, (1,)), "a": (torch.float32, ())}
    assert majority_form([both, dict(reversed(both.items()))]) == both


def test_the_form_of_metrics_is_known_before_a_site_with_its_own_data_answers(tmp_path):
    draw = np.random.default_rng(0)
    for name, count in (("simulated.csv", 120), ("mine.csv", 40)):
        rows = [f"{draw.normal():.3f},{draw.normal():.3f},{'yes' if n % 3 else 'no'},{n % 2}" for n in range(count)]
        (tmp_path / name).write_text("\n".join(["a,b,kind,client", *rows]))
    task = {"name": "own", "path": str(tmp_path / "simulated.csv"), "target": "kind", "metrics": ["auc", "macro_f1"]}
    blueprint = blueprint_of(task)
    site = blueprint.runtime(blueprint.site_task(south(tmp_path / "mine.csv"), tmp_path))
    server = blueprint.server_task({client: ClientSizes(32, 0, 8, 40) for client in range(2)})
    run = prepare(
        server, method_from_config(blueprint.config), blueprint.config, deployed=True, made_of="made elsewhere"
    ).composition
    message = Message({"row": server.initial_row()})
    for job in (Job("score", 1, [1], [0]), Job("update", 1, [1], [0], measure=True)):
        form = ReplyForms(run.runtime()).of(job, message)
        assert form == reply_form(site.do(job, message, {}))
        assert any("macro_f1" in name for name in form or ())
