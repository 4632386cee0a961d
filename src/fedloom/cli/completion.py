"""What a shell completes beside commands, options and files: the names of methods, tasks and other parts.

``fedloom --install-completion`` sets it up. Nothing heavy is imported for it: a shell waits for each answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fedloom.registry import kinds


def complete_method(incomplete: str) -> Iterator[str]:
    """Methods, and behind a plus the prediction stages: ``fedavg+fed`` is ``fedavg+fedpredict``.

    Args:
        incomplete: What was typed so far.
    """
    method, plus, stage = incomplete.rpartition("+")
    known: Iterable[str] = kinds.PREDICTION_STAGES if plus else kinds.METHODS
    return (f"{method}{plus}{name}" for name in known if name.startswith(stage))


def _names_of(known: Iterable[str]) -> Callable[[str], Iterator[str]]:
    def complete(incomplete: str) -> Iterator[str]:
        return (name for name in known if name.startswith(incomplete))

    return complete


OPTIONS: dict[str, Callable[[str], Iterator[str]]] = {
    "--task": _names_of(kinds.TASKS),
    "--model": _names_of(kinds.MODELS),
    "--selection": _names_of(kinds.SELECTORS),
    "--loss": _names_of(kinds.LOSSES),
}
"""What completes the value of an option."""
