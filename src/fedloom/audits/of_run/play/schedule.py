"""In which order the cells of an audit are played within a budget of seconds, and which are left out.

First the run with every setting and no attack, then every probe on the run as configured, then with every defence; then
the next seed, a probe with all settings at a time. A cell that does not fit any more is left out, and a shorter one
after it may still fit. The clock decides which cells are played and never what comes of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedloom.audits.of_run.play.cells import Cell, CellResult, read_cell, write_cell
from fedloom.audits.of_run.play.defences import CONFIGURED, RunVariant
from fedloom.audits.of_run.play.pace import MARGIN, Pace
from fedloom.audits.of_run.play.subject import SEEDS, OutOfTime, Subject, quiet
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.all_probes import PLAIN
from fedloom.audits.of_run.probes.probe import AuditProbe
from fedloom.core.errors import FedloomError
from fedloom.runs.plans.advise.halving import Budget

Planned = tuple[Cell, AuditProbe, RunVariant]


@dataclass(frozen=True)
class NextCell:
    """The next cell, for a progress display.

    Args:
        cell: What is played.
        done: How many cells are done.
        total: How many there are.
        seconds_left: What is left of the budget.
    """

    cell: Cell
    done: int
    total: int
    seconds_left: float


@dataclass
class Schedule:
    """Plays the cells of an audit.

    Args:
        subject: The run that is audited.
        probes: What is played, the most important first.
        settings: The run as configured, and with each defence.
        pace: How long cells take.
        budget: What is left of the time.
        reserve: Seconds that are kept for the page.
        folder: Where results are kept.
        watch: Is called before each cell.
        results: What was found.
    """

    subject: Subject
    probes: Sequence[AuditProbe]
    settings: Sequence[RunVariant]
    pace: Pace
    budget: Budget
    reserve: float
    folder: Path
    watch: Callable[[NextCell], None]
    results: dict[Cell, CellResult] = field(default_factory=dict)
    _trials: dict[str, Trial] = field(default_factory=dict)

    def run(self) -> Mapping[Cell, CellResult]:
        """Play what fits, and return what was found, also in earlier calls."""
        seeds = [self.subject.seed + number for number in range(SEEDS)]
        total = sum(len(list(self._cells(seed))) for seed in seeds)
        for cell, _, _ in (one for seed in seeds for one in self._cells(seed)):
            kept = read_cell(self.folder, cell)
            if kept is not None:
                self.results[cell] = kept
                self.budget.charged += kept.seconds
        for some in self._groups(seeds):
            left_out = [(cell, probe, setting) for cell, probe, setting in some if cell not in self.results]
            if sum(self._seconds(cell, probe) for cell, probe, _ in left_out) > self._left and len(some) > 1:
                continue
            for cell, probe, setting in left_out:
                if self._fits(cell, probe):
                    self.watch(NextCell(cell, len(self.results), total, self._left))
                    self._play(cell, probe, setting)
        return self._comparable()

    def _groups(self, seeds: Sequence[int]) -> Iterator[list[Planned]]:
        """The cells of the first seed, one by one; of the others a probe with every setting that it was measured with.

        A probe is compared over settings, so another seed is begun only if there is time for it with all of them.
        """
        for one in self._cells(seeds[0]):
            yield [one]
        for seed in seeds[1:]:
            for probe in (PLAIN, *self.probes):
                yield [one for one in self._cells(seed) if one[1] is probe and self._is_measured(one[0])]

    def _is_measured(self, cell: Cell) -> bool:
        """Whether a cell was measured with the first seed."""
        first = self.results.get(replace(cell, seed=self.subject.seed))
        return first is not None and first.status == "measured"

    def _comparable(self) -> dict[Cell, CellResult]:
        """The results of the first seed, and those of others that a probe has with every setting: means are alike."""
        first = self.subject.seed
        missing = {
            (cell.probe, seed)
            for cell in self.results
            if cell.seed == first and self._is_measured(cell)
            for seed in range(first + 1, first + SEEDS)
            if replace(cell, seed=seed) not in self.results
        }
        return {cell: one for cell, one in self.results.items() if (cell.probe, cell.seed) not in missing}

    def _cells(self, seed: int) -> Iterator[Planned]:
        """The cells of a seed, in their order."""
        possible = [setting for setting in self.settings if setting.values is not None]
        order = [(PLAIN, setting) for setting in possible]
        order += [(probe, possible[0]) for probe in self.probes]
        order += [(probe, setting) for probe in self.probes for setting in possible[1:]]
        for probe, setting in order:
            yield Cell(probe.name, setting.name, seed, self.pace.rounds), probe, setting

    @property
    def _left(self) -> float:
        return self.budget.seconds_left - self.reserve

    def _fits(self, cell: Cell, probe: AuditProbe) -> bool:
        """Whether there is time; a probe is compared with the run without attack, and not played without it."""
        plain = Cell(PLAIN.name, cell.setting, cell.seed, cell.rounds)
        known = self.results.get(plain)
        if probe is not PLAIN and (known is None or known.status != "measured"):
            return False
        return self._seconds(cell, probe) <= self._left

    def _seconds(self, cell: Cell, probe: AuditProbe) -> float:
        """How long a cell will take: as the longest like it did, or else as its probe says."""
        like = [one for one in self.results if one.probe == cell.probe]
        same = [self.results[one].seconds for one in like if one.setting == cell.setting]
        if same:
            return MARGIN * max(same)
        slower = self._slowness(cell)
        if like:
            return MARGIN * slower * max(self.results[one].seconds for one in like)
        return MARGIN * slower * self.pace.seconds(probe, self.subject.size(self.pace.rounds))

    def _slowness(self, cell: Cell) -> float:
        """How many times as long as the run as configured one with a defence takes."""
        times = [
            [one.seconds for key, one in self.results.items() if (key.probe, key.setting) == (PLAIN.name, name)]
            for name in (cell.setting, CONFIGURED)
        ]
        return max(1.0, min(times[0]) / max(min(times[1]), 1e-3)) if all(times) else 1.0

    def _play(self, cell: Cell, probe: AuditProbe, setting: RunVariant) -> None:
        """Play a cell, and keep what came of it; one that has no time is as if it had not been begun."""
        began = self.budget.clock()
        try:
            with quiet():
                outcome = probe.play(self._trial(cell, setting))
            if probe.measure not in outcome.measures:
                raise FedloomError(f"{probe.name} measures nothing here: the run has no shared model to measure it on.")
            result = CellResult("measured", outcome=outcome)
        except OutOfTime:
            return
        except FedloomError as refusal:
            result = CellResult("refused", str(refusal))
        except Exception as error:  # one attack that breaks, perhaps somebody's own, must not end the audit
            result = CellResult("broke", f"it broke: {type(error).__name__}: {error}")
        result = CellResult(result.status, result.reason, result.outcome, self.budget.clock() - began)
        self.results[cell] = result
        write_cell(self.folder, cell, result)

    def _trial(self, cell: Cell, setting: RunVariant) -> Trial:
        """The trial of a setting and a seed, which keeps the run without attack for all probes."""
        known = self._trials.get(cell.setting)
        if known is None or known.seed != cell.seed:
            known = Trial(self.subject, setting.values or {}, cell.seed, cell.rounds, left=lambda: self._left)
            self._trials[cell.setting] = known
        plain = self.results.get(Cell(PLAIN.name, cell.setting, cell.seed, cell.rounds))
        if plain is not None and plain.outcome is not None:
            known.plain_score = plain.outcome.measures["score"].value
        return known
