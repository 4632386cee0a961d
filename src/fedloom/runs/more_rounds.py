"""More rounds for a run that was started with fewer: it continues as if it had been started with more."""

from __future__ import annotations

from pathlib import Path

from fedloom.config.schema import RunConfig, to_toml
from fedloom.core.arguments import whole_number
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, holds
from fedloom.core.schedules import RoundSchedule
from fedloom.files.atomic_write import write_atomic
from fedloom.rounds.composition import Composition
from fedloom.rounds.evaluation import is_scored
from fedloom.rounds.loop import is_over
from fedloom.runs.folder.checkpoint import load_checkpoint
from fedloom.runs.folder.manifest import CONFIG, allow_configs, digest_of, manifest_paths
from fedloom.runs.folder.recover import recover
from fedloom.runs.prepare import Prepared
from fedloom.runs.private_rounds import counts_rounds
from fedloom.runs.results.history import History


def with_rounds(config: RunConfig, rounds: int | None) -> RunConfig:
    """The config with more rounds; None leaves it as it is, and fewer are refused."""
    if rounds is None:
        return config
    if whole_number("rounds", rounds) < config.rounds:
        raise FedloomError(
            f"rounds={rounds}: the run has {config.rounds} rounds already, and it can only continue: give more, or "
            "start another run."
        )
    return config.model_copy(update={"rounds": rounds})


def refuse_if_rounds_matter(run: Composition) -> None:
    """Refuse to continue where earlier rounds would have been others in a longer run."""
    parts = [run.algorithm, run.select, *run.stages]
    reason = next((type(part).__name__ for part in parts if not holds(Fact.ANY_LENGTH, part)), None)
    schedules = (run.setting.work, run.optimize)
    reason = next(
        (
            f"the learning-rate schedule {one.schedule}"
            for one in schedules
            if isinstance(one, RoundSchedule) and one.needs_all_rounds
        ),
        reason,
    )
    if reason is not None:
        raise FedloomError(
            f"{reason} depends on the number of rounds, so a longer run would have differed from round 1 on: start a "
            "new run with more rounds."
        )


def prolong(prepared: Prepared, folder: Path) -> None:
    """Turn the folder of a run into that of a longer one which was stopped. A kill at any point leaves one of the two.

    The last round of the shorter run was evaluated because it was the last. Where a longer run would not have
    evaluated it, the run goes back to the checkpoint before and plays it again; but for a private one, which would
    spend privacy on that, and whose record of this round keeps its scores.
    """
    run = prepared.composition
    refuse_if_rounds_matter(run)
    state = load_checkpoint(folder, run.task.federation.clients)
    before, config = (
        (folder / CONFIG).read_bytes(),
        to_toml({**History.load(folder).config, "rounds": run.setting.rounds}),
    )
    allow_configs(folder, [digest_of(before), digest_of(config)])
    evaluated_as_last = run.eval_every > 0 and state is not None and not is_scored(run, state.round)
    if state is not None and evaluated_as_last and not is_over(run, state) and not counts_rounds(prepared):
        manifest_paths(folder)[-1].unlink()
    write_atomic(folder / CONFIG, config)
    allow_configs(folder, [digest_of(config)])
    recover(folder)
