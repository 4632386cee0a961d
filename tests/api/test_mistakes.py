"""What people pass to Python calls by mistake: one sentence, before anything is run or written."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from support.synthetic import federation


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=4, alpha=0.5)


@pytest.fixture(scope="module")
def history(task):
    return fl.run(task, rounds=1)


@pytest.fixture(scope="module")
def folder(task, tmp_path_factory):
    """The folder of a comparison of one method."""
    return fl.compare(task, ["fedavg"], rounds=1, eval_every=0, out=tmp_path_factory.mktemp("c") / "c").folder


class NoMethod:
    """A class that is no method."""


RUN = {
    "no method": ({"method": None}, "method=None: give a spec such as 'fedprox:mu=0.1', a method, or its class."),
    "another class": ({"method": NoMethod}, "test_mistakes.NoMethod'>: give a spec"),
    "another object": ({"method": 3}, "method=3: give a spec"),
    "no task": (
        {"task": None},
        "task=None: give a task: fl.task(name), or fl.task_of(fl.read(data)) of your own data.",
    ),
    "a section": ({"task": {"name": "digits"}}, "task={'name': 'digits'}: give a task"),
    "a federation": ({"task": federation([9, 9])}, "give a task"),
    "a number as folder": ({"out": 3}, "out=3: give a path."),
    "an observer alone": ({"observers": print}, "give a list, for instance observers=[print]."),
    "an observer that cannot be called": (
        {"observers": [3]},
        "observers=3: an observer is an fl.Callback, or a function",
    ),
    "a callback alone": ({"callbacks": print}, "give a list, for instance callbacks=[print]."),
    "a class of callbacks": ({"callbacks": [fl.CopyCheckpoints]}, "give an object, for instance CopyCheckpoints()"),
    "a tracker alone": ({"track": "mlflow"}, "track='mlflow': give a list, for instance track=['tensorboard']."),
}
COMPARE = {
    "a method alone": (
        {"methods": "fedavg"},
        "methods='fedavg': give a list, for instance methods=['fedavg', 'local']",
    ),
    "no methods": ({"methods": None}, "methods=None: give a list"),
    "an empty list": ({"methods": []}, "there is no method to compare: give some"),
    "a number among methods": ({"methods": ["fedavg", 3]}, "method=3: give a spec"),
    "the word of fl.run": ({"method": "fedavg"}, "a comparison takes several, as its second argument"),
    "the seeds themselves": ({"seeds": [0, 1]}, "seeds=[0, 1]: it must be a whole number."),
    "seeds as text": ({"seeds": "3"}, "seeds='3': it must be a whole number."),
    "half a seed": ({"seeds": 1.5}, "seeds=1.5: it must be a whole number."),
    "a target as text": ({"reach": "80%"}, "reach='80%': it must be a number."),
    "a function without a task": ({"task": lambda _: 3}, "task(0)=3: give a task"),
    "a function without a seed": ({"task": lambda: None}, "it must take the seed, and return a task."),
    "no task at all": ({"task": None}, "task=None: give a task"),
}
TASK = {
    "no name": ({"name": None}, "task name=None: give a name"),
    "clients as text": ({"clients": "ten"}, "clients='ten': it must be a whole number."),
    "alpha as text": ({"alpha": "iid"}, "alpha='iid': it must be a number."),
    "a share as text": ({"valid_share": "20%"}, "valid_share='20%': it must be a number."),
}


def refuse(call, sentence):
    with pytest.raises(FedloomError) as caught:
        call()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mistake", RUN.values(), ids=RUN)
def test_run(mistake, task, tmp_path):
    words, sentence = mistake
    refuse(lambda: fl.run(**{"task": task, "rounds": 1, "out": tmp_path / "r", **words}), sentence)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mistake", COMPARE.values(), ids=COMPARE)
def test_compare(mistake, task, tmp_path):
    words, sentence = mistake
    usual = {"task": task, "methods": ["fedavg"], "rounds": 1, "out": tmp_path / "c"}
    refuse(lambda: fl.compare(**{**usual, **words}), sentence)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mistake", TASK.values(), ids=TASK)
def test_task(mistake):
    words, sentence = mistake
    refuse(lambda: fl.task(**{"name": "digits", **words}), sentence)


@pytest.mark.slow
def test_report_and_plot(history, folder, tmp_path):
    for runs in (None, 3, [history, 3]):
        refuse(lambda runs=runs: fl.report(runs, tmp_path / "a.html"), "give")
        refuse(lambda runs=runs: fl.plot(runs, tmp_path / "a.png"), "give")
    refuse(lambda: fl.report(history, folder), f"{folder} cannot be written (Is a directory): name another file.")
    refuse(lambda: fl.report(history, 3), "path=3: give a path.")
    for plot in (history.plot, lambda path: fl.plot(history, path)):
        refuse(lambda plot=plot: plot(tmp_path / "a.foo"), "Format 'foo' is not supported")
        refuse(lambda plot=plot: plot(tmp_path / "missing" / "a.png"), "choose another path or format")
        refuse(lambda plot=plot: plot(3), "path=3: give a path.")
    assert list(tmp_path.iterdir()) == []
    assert "<h1>2026" in fl.report(history, tmp_path / "a.html", title=2026).read_text()


def test_resume_and_the_rest(history, folder, task):
    run = folder / "fedavg-seed0"
    for words, sentence in (
        ({"folder": None}, "folder=None: give a path."),
        ({"folder": history}, "...: give a path."),
        ({"rounds": "5"}, "rounds='5': it must be a whole number."),
        ({"method": "fedavg"}, "method='fedavg': give a method object"),
        ({"task": "digits"}, "task='digits': give a task"),
    ):
        refuse(lambda words=words: fl.resume(**{"folder": run, "task": task, **words}), sentence)
    refuse(lambda: fl.resume(folder, task=task, workers=0), "workers=0: it must be at least 1.")
    refuse(lambda: fl.resume(folder, task=task, rounds="5"), "rounds='5': it must be a whole number.")
    refuse(lambda: history.model(None), "task=None: give a task")
    refuse(lambda: fl.sweep(task, grid=[1]), "grid=[1]: give the values of each key")
    refuse(lambda: fl.sweep(task, grid={"local.lr": [0.1]}, seeds="2"), "seeds='2': it must be a whole number.")
    refuse(lambda: fl.advise(task, "two"), "minutes='two': it must be a number.")


def test_the_clients_of_samples_are_not_how_many_there_are():
    with pytest.raises(FedloomError, match="the client of each sample is client="):
        fl.from_arrays([[0.0], [1.0], [2.0]], [0, 1, 0], clients=[0, 1, 1])
