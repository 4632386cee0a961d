"""Who was drawn under a private mean is in nothing that a run writes, or epsilon does not count on it.

Two runs are forced to draw different clients, with the same noise and a learning rate so small that no number of the
model changes: then every byte that a run writes outside of its checkpoints must be the same.
"""

import re

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.cli.app import app
from fedloom.privacy.accounting import epsilon_after
from fedloom.privacy.sampling import EveryClient
from fedloom.rounds.answers import Answers
from support.command_line import output

pytest.importorskip("dp_accounting", reason="needs dp-accounting")

PAIRS = [[2 * k, 2 * k + 1] for k in range(20)]
UNEQUAL = [[0], [1, 2, 3], *PAIRS[2:]]
LOCAL = {"channel": [{"name": "localnoise", "noise": 4.0, "clip": 0.5}]}
SAMPLES = {"sample_privacy": {"noise": 2.0}}
SCORED = {"eval_every": 1}

HIDDEN = {
    "fedavg": ("fedavg", {}),
    "a fixed number": ("fedavg", {"selection": {"name": "random", "number": 15}}),
    "scores": ("fedavg", SCORED),
    "scores by size": ("fedavg", {**SCORED, "size_groups": [20, 40]}),
    "fine-tuned scores": ("fedavg+finetune", SCORED),
    "held-out clients": ("fedavg", {**SCORED, "new_clients": 3}),
    "topk": ("fedavg", {"channel": [{"name": "topk"}]}),
    "qsgd": ("fedavg", {"channel": ["qsgd"]}),
    "downlink": ("fedavg", {"downlink": {"precision": "float16"}}),
    "federated dropout": ("fedavg", {"federated_dropout": {"keep": 0.5}}),
    "fedrep": ("fedrep", {}),
    "fedseq": (fl.FedSeq(chains=PAIRS), {"selection": {"name": "poisson", "rate": 0.8}}),
}
TOLD = {
    "localnoise": ("fedavg", LOCAL, "localnoise has records"),
    "sample_privacy": ("fedavg", SAMPLES, "sample_privacy has records"),
    "both": ("fedavg", {**LOCAL, **SAMPLES}, "localnoise has records"),
    "downlink delta": ("fedavg", {"downlink": {"delta": True}}, "downlink with delta sends fewer bytes"),
    "scored fedrep": ("fedrep", SCORED, "eval_every scores clients with what only those keep"),
    "a stage that keeps": ("fedavg+lastlocalmodel", SCORED, "eval_every scores clients with what only those keep"),
    "unequal chains": (fl.FedSeq(chains=UNEQUAL), {"selection": {"name": "poisson", "rate": 0.8}}, "fedseq sends more"),
    "fedrep, fedavg and noise": ("fedrep", {**SAMPLES, "downlink": {"delta": True}}, "downlink with delta sends"),
    "seeded": ("fedavg", {"aggregation": {"seeded": True}}, "privatemean with seeded"),
}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=40)


def play(task, method, settings, **more):
    mean = {"name": "privatemean", "noise": 1.0, "clip": 0.5, **settings.get("aggregation", {})}
    given = {"rounds": 3, "selection": {"name": "poisson", "rate": 0.5}, "eval_every": 0, **settings, **more}
    return fl.run(task, method, **{"local": {"lr": 1e-30}, **given, "aggregation": mean})


def released(folder, caplog, capsys):
    """Every byte of a run's folder but for the checkpoints, its report, and what was said."""
    output(app, "report", folder, "--out", folder / "page.html")
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    said = re.sub(re.escape(str(folder)), "", caplog.text + "".join(capsys.readouterr()))
    caplog.clear()
    return files | {"said": re.sub(r"\S+\.py:\d+", "", said).encode()}


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.slow
def test_two_runs_that_draw_different_clients_write_the_same_bytes(task, tmp_path, monkeypatch, caplog, capsys, name):
    method, settings = HIDDEN[name]
    caplog.set_level("DEBUG", "fedloom")
    drawn, keep = {}, Answers.keep

    def note(answers):
        drawn.setdefault(seed, []).append(tuple(answers.wave.ids))
        keep(answers)

    monkeypatch.setattr(Answers, "keep", note)
    monkeypatch.setattr("fedloom.privacy.private_mean.secure_normal", lambda count: torch.ones(count).double() / 1e3)
    found = []
    for seed in (1, 2):
        generator = np.random.default_rng(seed)
        monkeypatch.setattr("fedloom.core.selector.secret_generator", lambda generator=generator: generator)
        history = play(task, method, settings, out=tmp_path / str(seed) / "run")
        found.append(released(tmp_path / str(seed) / "run", caplog, capsys))
        assert history.config["made_by"].get("draws") is None
        rounds = sum(1 for record in history.records if record["round"])
        unamplified = epsilon_after(EveryClient(), 1.0, rounds, 1e-5)
        assert name == "a fixed number" or name == "fedseq" or history.last("privacy/epsilon") < unamplified
    assert drawn[1] != drawn[2]
    assert {len(ids) for ids in drawn[1]} != {len(ids) for ids in drawn[2]} or name == "a fixed number"
    assert {"metrics.jsonl", "clients.json", "timings.jsonl", "config.toml", "page.html", "said"} <= found[0].keys()
    assert found[0].keys() == found[1].keys()
    assert [file for file in found[0] if found[0][file] != found[1][file]] == []


@pytest.mark.parametrize("name", TOLD)
@pytest.mark.slow
def test_what_tells_of_draws_is_counted_without_them_and_says_so(task, tmp_path, caplog, name):
    method, settings, why = TOLD[name]
    history = play(task, method, settings, rounds=2, out=tmp_path / "run")
    chains = isinstance(method, fl.FedSeq)  # of a chain one member is replaced: twice the clip norm
    assert history.last("privacy/epsilon") == epsilon_after(EveryClient(), 0.5 if chains else 1.0, 2, 1e-5)
    assert re.search(rf"{why}.*, so epsilon counts every client as drawn in every round", caplog.text)
    assert why in history.config["made_by"]["draws"]
    assert why in (tmp_path / "run" / "config.toml").read_text()


def test_what_a_private_mean_does_not_protect_at_all_is_refused(task):
    with pytest.raises(
        fl.FedloomError, match="uses, with these settings, more of its clients' replies than their mean"
    ):
        play(task, "scaffold", {})
    with pytest.raises(fl.FedloomError, match="early_stopping decides by scores on clients' samples"):
        play(fl.task("digits", clients=40, valid_share=0.2), "fedavg", {**SCORED, "early_stopping": {"patience": 1}})
