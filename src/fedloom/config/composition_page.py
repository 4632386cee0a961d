"""Prints the tables of docs/composition.md from the facts that the built-in parts state.

``python -m fedloom.config.composition_page docs/composition.md`` writes them between the page's two marks.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.channel.downlink import Downlink
from fedloom.core.facts import SELECTOR_PROMISES, Fact, NamedPart, conflict
from fedloom.core.local_work import LocalWork
from fedloom.core.model.sub_models import FederatedDropout
from fedloom.privacy.sample_privacy import SamplePrivacy
from fedloom.registry.kinds import AGGREGATORS, ATTACKS, CHANNEL_STEPS, METHODS, PREDICTION_STAGES, SELECTORS

BEGIN, END = "<!-- printed from the facts -->", "<!-- end of what is printed -->"


def built_in_methods() -> dict[str, NamedPart]:
    """Every method of the library, with its default settings."""
    return {name: NamedPart.of(METHODS[name](), name) for name in METHODS.builtin}


def built_in_parts() -> dict[str, NamedPart]:
    """Every other part of the library that states facts, with its default settings."""
    found = {name: NamedPart.of(SELECTORS[name](), name, SELECTOR_PROMISES) for name in SELECTORS.builtin}
    for kind in (PREDICTION_STAGES, AGGREGATORS, CHANNEL_STEPS, ATTACKS):
        found |= {name: NamedPart.of(kind[name](), name) for name in kind.builtin}
    sections = {
        "yogi": ServerOptimizer("yogi"),
        "downlink": Downlink(),
        "delta": Downlink(delta=True),
        "federated_dropout": FederatedDropout(),
        "sample_privacy": SamplePrivacy(),
        "accumulate": LocalWork(accumulate=2),
        "round_schedule": LocalWork(round_schedule="linear", round_decay=0.1),
        "torch.optim:Adamax": LocalWork(optimizer="torch.optim:Adamax"),
    }
    return found | {name: NamedPart.of(section, name) for name, section in sections.items()}


def fact_table() -> list[str]:
    """A line per fact: who needs it, and who breaks it."""
    parts = {**built_in_methods(), **built_in_parts()}
    lines = ["| fact | that | needed by | broken by |", "|---|---|---|---|"]
    for fact in Fact:
        needed = [name for name, part in parts.items() if fact in part.needs]
        broken = [name for name, part in parts.items() if fact in part.breaks]
        lines.append(f"| {fact.name} | {fact.value} | {_list(needed)} | {_list(broken)} |")
    return lines


def pair_table() -> list[str]:
    """A line per reason: the methods and the other parts that cannot be in one run, and why."""
    reasons: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, method in built_in_methods().items():
        for other, part in built_in_parts().items():
            if conflict(part, method) is not None:
                reasons[_reason(part, method)][name].append(other)
    lines = ["| methods | with | why |", "|---|---|---|"]
    for (why, how), found in reasons.items():
        together: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for method_name, others in found.items():
            together[tuple(others)].append(method_name)
        for same, methods in together.items():
            lines.append(f"| {_list(methods)} | {_list(same)} | the part {why}, and the method {how} |")
    return lines


def _reason(part: NamedPart, method: NamedPart) -> tuple[str, str]:
    """What the part says and what the method says of the fact for which they are refused."""
    for needer, breaker in ((part, method), (method, part)):
        for fact, text in needer.needs.items():
            if fact in breaker.breaks:
                said = (text.partition(": ")[0], breaker.breaks[fact].partition(": ")[0])
                return said if needer is part else (said[1], said[0])
    raise AssertionError("only parts that are refused have a reason")


def _list(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "–"


def printed_section() -> str:
    """What stands between the marks of the page."""
    facts, pairs = "\n".join(fact_table()), "\n".join(pair_table())
    return (
        f"{BEGIN}\n\n### Pairs\n\nEach part has its default settings. `yogi` stands for any server optimiser, and "
        f"`delta` for `downlink.delta`.\n\n{pairs}\n\n### Facts\n\n{facts}\n\n{END}"
    )


def main(page: Path) -> None:
    """Write the tables into the page.

    Args:
        page: The path of docs/composition.md.
    """
    text = page.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    page.write_text(before + printed_section() + after)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
