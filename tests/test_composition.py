"""Any method with any selector, any stage and any server optimiser: it runs, or it is refused in one sentence.

Refusals come in pairs (a method and a stage, a method and a selector, ...). Each pair is listed with its reason in
docs/composition.md, and a combination is refused exactly when one of its pairs is. Whether it is refused is asked of
every pair, before training starts; a third of the pairs are then run, so that each method runs with a third of all
parts, and each part with a third of all methods. All parts that a method allows run together, for every method.
"""

from __future__ import annotations

import itertools
import re
from contextlib import nullcontext
from unittest import mock

import pytest

import fedloom as fl
from fedloom.core.declarations import Model
from fedloom.registry.kinds import CHANNEL_STEPS, METHODS, PREDICTION_STAGES, SELECTORS
from support.compositions import IMAGES, SELECTION, TASK, spec_of, task_for
from support.paths import DOCS

PAGE = DOCS / "composition.md"
OPTIMIZER = {"plain": None, "yogi": {"kind": "yogi"}}
NOTHING = "no stage"
HOSTILE = {"name": "signflipping", "clients": [1]}
BY_CLIENTS = ("gaussiannoise", "ipm", "minmax", "minsum", "freerider", "sybils", "labelflipping")
OF_IMAGES = ("gradientinversion", "backdoor", "gan")
PARTS: dict[str, dict[str, object]] = {
    "median": {"aggregation": "median"},
    "trimmedmean": {"aggregation": {"name": "trimmedmean", "share": 0.34}},
    "geometricmedian": {"aggregation": "geometricmedian"},
    "krum": {"aggregation": {"name": "krum", "share": 0.0}},
    "multikrum": {"aggregation": {"name": "multikrum", "share": 0.0}},
    "bulyan": {"aggregation": {"name": "bulyan", "share": 0.0}},
    "normbounding": {"aggregation": "normbounding"},
    "centredclipping": {"aggregation": "centredclipping"},
    "foolsgold": {"aggregation": "foolsgold"},
    "fltrust": {"aggregation": "fltrust"},
    "servertraining": {"aggregation": "servertraining"},
    "dnc": {"aggregation": {"name": "dnc", "share": 0.34}},
    "pca": {"aggregation": "pca"},
    "nnm": {"aggregation": {"name": "nnm", "share": 0.34}},
    "privatemean": {"aggregation": {"name": "privatemean", "noise": 0.01, "clip": 10.0, "seeded": True}},
    "sample_privacy": {"sample_privacy": {"noise": 0.5, "clip": 1.0, "seeded": True}},
    "localnoise": {"channel": [{"name": "localnoise", "noise": 0.5, "clip": 1.0, "seeded": True}]},
    **{name: {"channel": [name]} for name in CHANNEL_STEPS if name not in ("topk", "cmfl", "localnoise")},
    "topk": {"channel": [{"name": "topk", "fraction": 0.2}]},
    "cmfl": {"channel": [{"name": "topk", "fraction": 0.2}, {"name": "cmfl", "threshold": 0.6}]},
    "federated_dropout": {"federated_dropout": {"keep": 0.6}},
    "downlink": {"downlink": {"precision": "bfloat16"}},
    "delta": {"downlink": {"delta": True}},
    "securesum": {"channel": [{"name": "securesum"}]},
    "privatesum": {"channel": [{"name": "privatesum", "noise": 4.0, "clip": 0.5, "seeded": True}]},
    "ckks": {"channel": [{"name": "ckks"}]},
    "linearleak": {"adversary": "linearleak"},
    "gradientinversion": {"adversary": {"name": "gradientinversion", "iterations": 2}},
    "trapweights": {"adversary": "trapweights"},
    "classfishing": {"adversary": "classfishing"},
    "gan": {"adversary": {"name": "gan", "clients": [1], "steps": 1, "width": 2}},
    **{name: {"adversary": {"name": name, "clients": [1, 2]}} for name in BY_CLIENTS},
    "backdoor": {"adversary": {"name": "backdoor", "clients": [1, 2], "size": 1}},
    "signflipping": {"adversary": HOSTILE},
    "alie": {"adversary": {"name": "alie", "clients": [1, 2], "z": 1.0}},
    "round_schedule": {"local": {"round_schedule": "linear", "round_decay": 0.1}},
}
"""Parts that act on clients' updates, or on the way to them."""
ALONE = ("trimmedmean", "cmfl", "federated_dropout", "securesum", "privatesum", "ckks")
"""Parts that are not tried with all others at once: these refuse some of them, and have tests of their own."""


class Ready(Exception):  # noqa: N818
    """Raised where training would start."""


def refusal(method: str, stage: str = NOTHING, *, trains: bool = True, **settings: object) -> str | None:
    """The sentence with which a combination is refused; None when two rounds run, or could start if nothing trains."""
    task, work = task_for(method)
    if task is TASK and settings.get("adversary") in [PARTS[name]["adversary"] for name in OF_IMAGES]:
        task = IMAGES
    spec = spec_of(method) if stage == NOTHING else f"{spec_of(method)}+{stage}"
    start = nullcontext() if trains else mock.patch("fedloom.runs.run.execute", side_effect=Ready)
    try:
        with start:
            settings["local"] = {**work, **settings.get("local", {})}
            history = fl.run(task, spec, rounds=2, eval_every=2, **settings)
    except fl.FedloomError as refused:
        return str(refused)
    except Ready:
        return None
    assert history.stopped is None, f"{spec} {settings}: {history.stopped}"
    assert history.records[-1]["round"] == 2
    assert "client_model/own_test/accuracy/mean" in history.records[-1]["metrics"]
    return None


def selected_by(name: str) -> dict[str, object]:
    return {"selection": {"name": name, **SELECTION.get(name, {})}}


def refused_pairs() -> dict[frozenset[str], str]:
    """The pairs that are refused, each with its sentence."""
    others = {name: (NOTHING, selected_by(name)) for name in SELECTORS}
    others |= {stage: (stage, selected_by("random")) for stage in PREDICTION_STAGES}
    others |= {"yogi": (NOTHING, {"server_optimizer": OPTIMIZER["yogi"]})}
    others |= {part: (NOTHING, settings) for part, settings in PARTS.items()}
    found = {}
    for i, method in enumerate(METHODS):
        for j, (other, (stage, settings)) in enumerate(others.items()):
            why = refusal(method, stage, trains=(i + j) % 3 == 0, **settings)
            if why is not None:
                found[frozenset((method, other))] = why
    return found


PAIRS = pytest.mark.xdist_group("pairs")  # one process tries all pairs, once
LONG = pytest.mark.timeout(1500)
"""Thousands of short runs take minutes, and several times that on a busy machine."""


def pairs_of_the_docs() -> set[frozenset[str]]:
    """The pairs that docs/composition.md lists as refused."""
    listed = set()
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0].startswith("`"):
            names = [re.findall(r"`([^`]+)`", cell) for cell in cells[:2]]
            listed |= {frozenset(pair) for pair in itertools.product(*names)}
    return listed


@pytest.fixture(scope="module")
def refusals_of_pairs() -> dict[frozenset[str], str]:
    return refused_pairs()


def test_every_method_runs_by_itself():
    tried = {method: refusal(method) for method in METHODS}
    assert {method: why for method, why in tried.items() if why is not None} == {}


@pytest.mark.slow
@PAIRS
@LONG
def test_a_refusal_is_one_sentence_that_says_what_to_do(refusals_of_pairs):
    for pair, why in refusals_of_pairs.items():
        assert why.endswith("."), f"{set(pair)}: {why}"
        assert "\n" not in why
        assert ":" in why, f"{set(pair)} says what is wrong but not what to do: {why}"


@pytest.mark.slow
@PAIRS
@LONG
def test_every_refused_pair_and_no_other_is_justified_in_the_docs(refusals_of_pairs):
    others = len(SELECTORS) + len(PREDICTION_STAGES) + 1 + len(PARTS)
    print(f"{len(refusals_of_pairs)} of {len(METHODS) * others} pairs are refused")
    assert set(refusals_of_pairs) == pairs_of_the_docs()


def test_models_that_each_client_gets_are_declared_as_such():
    """Preparation refuses by declarations what a first message would show."""
    for name in METHODS:
        task, _ = task_for(name)
        method = METHODS.make(spec_of(name))
        adapted = method.adapt_task(task)
        sent = method.broadcast(method.start(adapted), [0, 1])
        models = {key for key, one in method.receives.items() if isinstance(one, Model)}
        assert {key for key in models if method.receives[key].each} == models & sent.each.keys(), name


@pytest.mark.parametrize(
    ("part", "method"),
    [
        *(("lowrank", name) for name in ("fedsimclr", "fedsimsiam", "fedca", "fedcon", "perfcl", "fedlid")),
        *(("delta", name) for name in ("cfl", "fesem", "fedu")),
    ],
)
def test_what_a_message_cannot_bear_is_refused_before_there_is_one(part, method, tmp_path):
    why = refusal(method, trains=False, out=tmp_path / "run", **PARTS[part])
    assert why is not None
    assert (
        "sends another model to each client" if part == "delta" else "neither the model nor one of its parts"
    ) in why
    assert not (tmp_path / "run").exists()


def combinations() -> list[tuple[str, str, str, str]]:
    """Any two of a method, a selector, a stage and an optimiser, in a sixth of the combinations of four."""
    found = []
    for i, selector in enumerate(SELECTORS):
        for j, stage in enumerate([NOTHING, *PREDICTION_STAGES]):
            for k, method in enumerate(METHODS):
                if (i + j + k) % 3 == 0:
                    found.append((method, selector, stage, list(OPTIMIZER)[(i + j + k) // 3 % 2]))
    return found


def test_any_two_of_four_are_among_the_combinations():
    four = [METHODS, SELECTORS, [NOTHING, *PREDICTION_STAGES], OPTIMIZER]
    for places in itertools.combinations(range(4), 2):
        tried = {tuple(combination[place] for place in places) for combination in combinations()}
        assert tried == set(itertools.product(*(four[place] for place in places)))


@pytest.mark.slow
@PAIRS
@LONG
def test_a_combination_is_refused_exactly_when_one_of_its_pairs_is(refusals_of_pairs):
    wrong, refusals = [], 0
    for method, selector, stage, optimizer in combinations():
        expected = any(frozenset((method, other)) in refusals_of_pairs for other in (selector, stage, optimizer))
        settings = selected_by(selector) | {"server_optimizer": OPTIMIZER[optimizer]}
        why = refusal(method, stage, trains=False, **settings)
        refusals += why is not None
        if (why is not None) != expected:
            wrong.append((method, selector, stage, optimizer, why))
    print(f"{refusals} of {len(combinations())} combinations are refused")
    assert wrong == []


def all_parts(method: str) -> dict[str, object]:
    """The settings of every part that acts on updates, that a method does not refuse and that no other part refuses."""
    refused = pairs_of_the_docs()
    alone = ALONE if task_for(method)[0] is IMAGES else (*ALONE, *OF_IMAGES)
    names = [name for name in PARTS if name not in alone and frozenset((method, name)) not in refused]
    return {key: value for name in names for key, value in PARTS[name].items()}


class Stop(Exception):  # noqa: N818
    """Raised to stop a run between two rounds."""


def stop_after_two(record: dict[str, object]) -> None:
    if record["round"] == 2:
        raise Stop


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("local", "centralised")])
def test_parts_that_act_on_updates_give_the_same_bytes_with_workers_and_after_a_stop(method, tmp_path):
    task, work = task_for(method)
    settings = {"rounds": 3, "local": work, **all_parts(method)}
    fl.run(task, spec_of(method), out=tmp_path / "one", **settings)
    fl.run(task, spec_of(method), out=tmp_path / "two", workers=2, **settings)
    with pytest.raises(Stop):
        fl.run(task, spec_of(method), out=tmp_path / "stopped", observers=[stop_after_two], **settings)
    fl.resume(tmp_path / "stopped", task=task)
    files = [
        "metrics.jsonl",
        "clients.json",
        *(f"checkpoints/{p.name}" for p in (tmp_path / "one/checkpoints").glob("*.safetensors")),
    ]
    for name in files:
        expected = (tmp_path / "one" / name).read_bytes()
        assert (tmp_path / "two" / name).read_bytes() == expected, name
        assert (tmp_path / "stopped" / name).read_bytes() == expected, name
