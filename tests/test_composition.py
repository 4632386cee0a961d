"""Any method with any selector, any stage and any server optimiser: it runs, or it is refused in one sentence.

Refusals come in pairs (a method and a stage, a method and a selector, ...). Each pair is listed with its reason in
docs/composition.md, and a combination is refused exactly when one of its pairs is.
"""

from __future__ import annotations

import itertools
import re
from functools import cache

import pytest

import fedloom as fl
from fedloom.channel.registry import CHANNELS
from fedloom.methods.registry import METHODS
from fedloom.prediction.registry import STAGES
from fedloom.selection.registry import SELECTORS
from support.compositions import SELECTION, spec_of, task_for
from support.paths import DOCS

PAGE = DOCS / "composition.md"
OPTIMIZER = {"plain": None, "yogi": {"kind": "yogi"}}
NOTHING = "no stage"
HOSTILE = {"name": "signflipping", "clients": [1]}
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
    "dnc": {"aggregation": {"name": "dnc", "share": 0.34}},
    "privatemean": {"aggregation": {"name": "privatemean", "noise": 0.01, "clip": 10.0, "seeded": True}},
    "sample_privacy": {"sample_privacy": {"noise": 0.5, "clip": 1.0, "seeded": True}},
    "localnoise": {"channel": [{"name": "localnoise", "noise": 0.5, "clip": 1.0, "seeded": True}]},
    **{name: {"channel": [name]} for name in CHANNELS if name not in ("topk", "cmfl", "localnoise")},
    "topk": {"channel": [{"name": "topk", "fraction": 0.2}]},
    "cmfl": {"channel": [{"name": "topk", "fraction": 0.2}, {"name": "cmfl", "threshold": 0.6}]},
    "federated_dropout": {"federated_dropout": {"keep": 0.6}},
    "downlink": {"downlink": {"precision": "bfloat16"}},
    "delta": {"downlink": {"delta": True}},
    "securesum": {"channel": [{"name": "securesum"}]},
    "privatesum": {"channel": [{"name": "privatesum", "noise": 4.0, "clip": 0.5, "seeded": True}]},
    "ckks": {"channel": [{"name": "ckks"}]},
    "signflipping": {"adversary": HOSTILE},
    "alie": {"adversary": {"name": "alie", "clients": [1, 2], "z": 1.0}},
}
"""Parts that act on clients' updates."""
ALONE = ("trimmedmean", "cmfl", "federated_dropout")
"""Parts that are not tried with all others at once: these refuse some of them, and have tests of their own."""


@cache
def attempt(method: str, selector: str, stage: str, optimizer: str) -> str | None:
    """None when two rounds run; the sentence when the combination is refused."""
    spec = spec_of(method)
    task, work = task_for(method)
    try:
        history = fl.run(
            task,
            spec if stage == NOTHING else f"{spec}+{stage}",
            rounds=2,
            local=work,
            selection={"name": selector, **SELECTION.get(selector, {})},
            server_optimizer=OPTIMIZER[optimizer],
            eval_every=2,
        )
    except fl.FedloomError as refusal:
        return str(refusal)
    assert history.stopped is None, f"{method} {selector} {stage} {optimizer}: {history.stopped}"
    assert history.records[-1]["round"] == 2
    assert "client_model/own_test/accuracy/mean" in history.records[-1]["metrics"]
    return None


@cache
def attempt_part(method: str, part: str) -> str | None:
    """None when two rounds run with a part that acts on updates; the sentence when the pair is refused."""
    task, work = task_for(method)
    try:
        history = fl.run(task, spec_of(method), rounds=2, local=work, eval_every=2, **PARTS[part])
    except fl.FedloomError as refusal:
        return str(refusal)
    assert history.stopped is None, f"{method} {part}: {history.stopped}"
    assert "client_model/own_test/accuracy/mean" in history.records[-1]["metrics"]
    return None


def refused_pairs() -> dict[frozenset[str], str]:
    """The pairs that are refused, each with its sentence."""
    found = {}
    for method in METHODS:
        pairs = [(selector, attempt(method, selector, NOTHING, "plain")) for selector in SELECTORS]
        pairs += [(stage, attempt(method, "random", stage, "plain")) for stage in STAGES]
        pairs += [("yogi", attempt(method, "random", NOTHING, "yogi"))]
        pairs += [(part, attempt_part(method, part)) for part in PARTS]
        found |= {frozenset((method, other)): why for other, why in pairs if why is not None}
    return found


PAIRS = pytest.mark.xdist_group("pairs")  # one process tries all pairs, once
LONG = pytest.mark.timeout(1500)
"""Thousands of short runs take minutes, and several times that on a busy machine."""


@pytest.fixture(scope="module")
def refusals_of_pairs() -> dict[frozenset[str], str]:
    return refused_pairs()


def test_every_method_runs_by_itself():
    tried = {method: attempt(method, "random", NOTHING, "plain") for method in METHODS}
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
    others = len(SELECTORS) + len(STAGES) + 1 + len(PARTS)
    print(f"{len(refusals_of_pairs)} of {len(METHODS) * others} pairs are refused")
    listed = set()
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0].startswith("`"):
            names = [re.findall(r"`([^`]+)`", cell) for cell in cells[:2]]
            listed |= {frozenset(pair) for pair in itertools.product(*names)}
    assert set(refusals_of_pairs) == listed


def combinations() -> list[tuple[str, str, str, str]]:
    """Any three of a method, a selector, a stage and an optimiser, in half of the combinations of four."""
    found = []
    for i, selector in enumerate(SELECTORS):
        for j, stage in enumerate([NOTHING, *STAGES]):
            found += [(method, selector, stage, list(OPTIMIZER)[(i + j + k) % 2]) for k, method in enumerate(METHODS)]
    return found


def test_any_three_of_four_are_among_the_combinations():
    four = [METHODS, SELECTORS, [NOTHING, *STAGES], OPTIMIZER]
    for places in itertools.combinations(range(4), 3):
        tried = {tuple(combination[place] for place in places) for combination in combinations()}
        assert tried == set(itertools.product(*(four[place] for place in places)))


@pytest.mark.slow
@PAIRS
@LONG
def test_a_combination_is_refused_exactly_when_one_of_its_pairs_is(refusals_of_pairs):
    wrong, refusals = [], 0
    for method, selector, stage, optimizer in combinations():
        expected = any(frozenset((method, other)) in refusals_of_pairs for other in (selector, stage, optimizer))
        why = attempt(method, selector, stage, optimizer)
        refusals += why is not None
        if (why is not None) != expected:
            wrong.append((method, selector, stage, optimizer, why))
    print(f"{refusals} of {len(combinations())} combinations are refused")
    assert wrong == []


def all_parts(method: str) -> dict[str, object]:
    """The settings of every part that acts on updates, that a method does not refuse and that no other part refuses."""
    names = [name for name in PARTS if name not in ALONE and attempt_part(method, name) is None]
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
