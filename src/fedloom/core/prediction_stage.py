"""The prediction stage: what may happen to a client's weights between training and predicting.

A stage sits behind any method and any selection. It never touches training: with and without it, the models that
are exchanged are the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Kept
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message
from fedloom.core.settings import check_settings
from fedloom.core.task import Task


@dataclass(frozen=True)
class PredictionStage:
    """A plugin. Its hyper-parameters are its fields; it holds no state of its own."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    needs: ClassVar[Facts] = {}
    """What the stage needs of other parts, and why."""
    breaks: ClassVar[Facts] = {}
    """What other parts cannot rely on, and why."""
    trains_head: ClassVar[bool] = False
    """Whether the model's head is trained before predicting."""
    keeps: ClassVar[Kept] = {}
    """What stays with clients for this stage, by name, in words."""

    def __post_init__(self) -> None:
        check_settings(self)

    def _derived_facts(self) -> tuple[Facts, Facts]:
        """A stage that keeps what clients trained needs models that are whole."""
        keeps = type(self).after_update is not PredictionStage.after_update
        why = "keeps the model that a client trained: leave out one of the two"
        return ({Fact.SAME_WEIGHTS: why} if keeps else {}), {}

    def check(self, algorithm: Algorithm, task: Task, before: tuple[PredictionStage, ...]) -> None:
        """Raise a ``FedloomError``, before any work, for a combination that this stage does not support.

        Args:
            algorithm: The method of the run.
            before: The stages before this one, in order.
        """

    def after_update(self, cohort: Cohort) -> None:
        """Let clients keep something of their local work (``cohort.after`` are the rows that they trained).

        Args:
            cohort: The clients that have just trained.
        """

    def weights(self, rows: Tensor, message: Message, cohort: Cohort) -> Tensor:
        """What clients predict with, given the row per client that they would predict with otherwise.

        Args:
            rows: A row per client, from the method or the stage before this one.
            message: What the clients would get from the server now.
            cohort: The clients.
        """
        return rows
