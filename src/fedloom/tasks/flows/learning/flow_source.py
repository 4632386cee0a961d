"""Where the flows of a task come from, and which organisations of a corpus take part as clients.

A source validates its options (``task.options``) and reads its corpus. ``SyntheticFlows`` generates one; ``RealFlows``
reads n8n workflows or BPMN models; ``OwnFlows`` reads a user's folder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol

from annotated_types import Ge, Le

from fedloom.core import seeds
from fedloom.core.errors import FedloomError
from fedloom.core.settings import Count, check_settings
from fedloom.registry.validation import validate
from fedloom.tasks.builder import TaskSettings
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.formats.read_corpus import read_folder
from fedloom.tasks.flows.learning.flow_federation import Label
from fedloom.tasks.flows.learning.flow_schema import MOST_BUCKETS
from fedloom.tasks.flows.learning.public_words import BUCKETS
from fedloom.tasks.flows.synthetic.generator import generate

log = logging.getLogger("fedloom")
CLIENTS = 15
"""The default number of organisations of the synthetic corpus."""


@dataclass(frozen=True)
class VocabularyOptions:
    """Where the words of flows come from, which is an option of every flow task.

    ``pooled`` words are those of all organisations' flows; ``public`` ones are the platform's, and all others share a
    number of ``buckets`` per attribute (``public_words``).
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    vocabulary: Literal["pooled", "public"] = "pooled"
    buckets: Annotated[int, Ge(1), Le(MOST_BUCKETS)] = BUCKETS

    def __post_init__(self) -> None:
        check_settings(self, "options")

    @property
    def public_buckets(self) -> int | None:
        """The number of buckets beside public words; None if words are pooled."""
        return self.buckets if self.vocabulary == "public" else None


@dataclass(frozen=True)
class SyntheticFlowOptions(VocabularyOptions):
    """The options of ``flows``: the label to predict, and the data points of the largest of the 33 organisations."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    label: Label = "kind"
    largest: Count = 14_000


@dataclass(frozen=True)
class RealFlowOptions(VocabularyOptions):
    """The options of real flows.

    Kinds with fewer than ``least_count`` occurrences are one class, organisations with fewer than ``least_flows`` flows
    are not clients, and flows with more than ``largest_flow`` nodes are left out.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    least_count: Count = 100
    least_flows: Count = 10
    largest_flow: Annotated[int, Ge(2)] = 60


@dataclass(frozen=True)
class OwnFlowOptions(RealFlowOptions):
    """The options of ``own-flows``: those of real flows, and the label to predict."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    least_count: Count = 10
    least_flows: Count = 2
    largest_flow: Annotated[int, Ge(2)] = 200
    label: Label = "kind"


@dataclass(frozen=True)
class FlowCorpus:
    """The corpus of a task and what is predicted of it.

    ``whole`` has all organisations, from which the classes and words are taken unless they are public, and ``clients``
    those that take part. Kinds with fewer than ``least_count`` occurrences are one class.
    """

    whole: Corpus
    clients: Corpus
    label: Label = "kind"
    least_count: int = 1
    buckets: int | None = None
    """The number of buckets beside public words; None if words are pooled."""


class FlowSource(Protocol):
    """Reads or generates the flows of a task."""

    @property
    def takes_path(self) -> bool:
        """Whether the flows are the user's, in a folder."""
        ...

    def options(self, given: Mapping[str, Any], task: str) -> Any:
        """The complete options of a task, as a record; a wrong one is an error."""
        ...

    def read(self, options: Any, settings: TaskSettings) -> FlowCorpus:
        """The corpus of a task with these options."""
        ...


@dataclass(frozen=True)
class SyntheticFlows:
    """The synthetic corpus; ``label`` is what a task predicts unless its options say otherwise."""

    label: Label = "kind"
    takes_path: bool = False

    def options(self, given: Mapping[str, Any], task: str) -> SyntheticFlowOptions:
        """The label to predict and the size of the largest organisation."""
        chosen: SyntheticFlowOptions = validate(
            SyntheticFlowOptions, {"label": self.label, **given}, f"the options of task {task}"
        )
        if self.label == "subkind" and chosen.label != "subkind":
            raise FedloomError(
                f"label={chosen.label} in the options of task {task}: it predicts subkinds; use the task flows."
            )
        return chosen

    def read(self, options: SyntheticFlowOptions, settings: TaskSettings) -> FlowCorpus:
        """Generate the corpus."""
        clients = CLIENTS if settings.clients is None else settings.clients
        corpus = generate(clients, options.largest, settings.seed)
        return FlowCorpus(corpus, corpus, options.label, buckets=options.public_buckets)


@dataclass(frozen=True)
class RealFlows:
    """Public flows; ``unknown_owner`` is the name under which the corpus keeps flows without a known owner."""

    read_corpus: Callable[[], Corpus]
    unknown_owner: str | None = None
    takes_path: bool = False

    def options(self, given: Mapping[str, Any], task: str) -> RealFlowOptions:
        """The limits on kinds, organisations and flows."""
        chosen: RealFlowOptions = validate(RealFlowOptions, dict(given), f"the options of task {task}")
        return chosen

    def read(self, options: RealFlowOptions, settings: TaskSettings) -> FlowCorpus:
        """Read the corpus and draw the organisations that take part."""
        whole = suitable_organisations(self.read_corpus(), options, self.unknown_owner)
        corpus = random_organisations(whole, settings.clients, settings.seed)
        return FlowCorpus(whole, corpus, least_count=options.least_count, buckets=options.public_buckets)


@dataclass(frozen=True)
class OwnFlows:
    """A user's flows: a folder per organisation."""

    takes_path: bool = True

    def options(self, given: Mapping[str, Any], task: str) -> OwnFlowOptions:
        """The limits on kinds, organisations and flows, and the label to predict."""
        chosen: OwnFlowOptions = validate(OwnFlowOptions, dict(given), f"the options of task {task}")
        return chosen

    def read(self, options: OwnFlowOptions, settings: TaskSettings) -> FlowCorpus:
        """Read the folder and draw the organisations that take part."""
        whole = suitable_organisations(read_folder(str(settings.path)), options)
        corpus = random_organisations(whole, settings.clients, settings.seed)
        return FlowCorpus(whole, corpus, options.label, options.least_count, options.public_buckets)


def suitable_organisations(corpus: Corpus, limits: RealFlowOptions, unknown_owner: str | None = None) -> Corpus:
    """The organisations of a corpus with enough flows, without too large flows; what is left out is logged.

    ``unknown_owner`` is the name under which the corpus keeps flows of unknown owners, which are left out.
    """
    kept: list[Organisation] = []
    few = unowned = large = 0
    for organisation in corpus.organisations:
        flows, extra = (
            tuple(flow for flow in some if len(flow.nodes) <= limits.largest_flow)
            for some in (organisation.flows, organisation.extra)
        )
        if organisation.name == unknown_owner:
            unowned += len(organisation.flows)
        elif len(flows) < limits.least_flows:
            few += 1
        else:
            large += len(organisation.flows) + len(organisation.extra) - len(flows) - len(extra)
            kept.append(Organisation(organisation.name, flows, extra))
    if not kept:
        raise FedloomError(
            f"no organisation of '{corpus.title}' has {limits.least_flows} flows of at most {limits.largest_flow} "
            "nodes: lower least_flows, or raise largest_flow."
        )
    left_out = {
        f"organisations with fewer than {limits.least_flows} flows": few,
        "flows of unknown owners": unowned,
        f"flows of more than {limits.largest_flow} nodes": large,
    }
    summary = ", ".join(f"{count:,} {what}" for what, count in left_out.items() if count)
    if summary:
        log.warning("%s: left out: %s", corpus.title, summary)
    return replace(corpus, organisations=tuple(kept))


def random_organisations(corpus: Corpus, clients: int | None, seed: int) -> Corpus:
    """A corpus with ``clients`` of its organisations, chosen at random, in their old order; None is all of them."""
    there = len(corpus.organisations)
    if clients is None or clients == there:
        return corpus
    if not 1 <= clients <= there:
        raise FedloomError(f"clients={clients}: '{corpus.title}' has {there} organisations that can take part.")
    chosen = sorted(seeds.numpy_generator(seed, "organisations").permutation(there)[:clients].tolist())
    return replace(corpus, organisations=tuple(corpus.organisations[i] for i in chosen))
