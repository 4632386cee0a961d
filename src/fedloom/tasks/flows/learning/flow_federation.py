"""From a corpus to a federation: organisations become clients, flows become data points with classes.

A flow is never split: all of its points are in one part, or a test point would be the beginning of a flow that was
trained on. Copies of a flow (``duplicates``) are in one part too; those that several organisations hold are for
training with all of them. ``extra`` flows are for testing only and do not count as a client's data: what depends on a
client's size (such as which clients a hybrid method calls large) uses the size without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import key, numpy_generator
from fedloom.core.settings import ShareBelowOne, check_value
from fedloom.data.federation import Federation, Ragged
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Flow, Node
from fedloom.tasks.flows.learning.data_points import FlowTable
from fedloom.tasks.flows.learning.duplicates import duplicate_numbers
from fedloom.tasks.flows.learning.flow_schema import FlowSchema, bucket
from fedloom.tasks.flows.learning.placement_order import placement_order
from fedloom.tasks.flows.platform_kinds import KINDS, NEVER_TARGETS, SUBKINDS
from fedloom.tasks.flows.rules import PLATFORM, Dialect

Label = Literal["kind", "subkind"]
OTHER = "other"
"""The class of rare kinds and of unknown kinds."""
LEAST_WORDS = 2
"""A word that occurs once is unknown, so that a model is trained on unknown words too."""
TRAIN, VALID, TEST, EXTRA = 0, 1, 2, 3


@dataclass(frozen=True)
class FlowClasses:
    """The classes that are predicted; the last one is for everything else.

    With ``buckets`` the last classes are buckets instead, and everything else is in one of them (``flow_schema``).
    """

    label: Label
    names: tuple[str, ...]
    buckets: int = 0

    @staticmethod
    def of(corpus: Corpus, label: Label = "kind", least_count: int = 1) -> FlowClasses:
        """The classes of a corpus.

        On the platform of the thesis they are its 26 kinds or 195 subkinds and ``unknown``, elsewhere every kind or
        subkind that occurs ``least_count`` times and ``other``.
        """
        if corpus.dialect == PLATFORM:
            return FlowClasses(label, (*(KINDS if label == "kind" else SUBKINDS), "unknown"))
        never = never_targets(corpus.dialect)
        nodes = (n for o in corpus.organisations for f in (*o.flows, *o.extra) for n in f.nodes if n.kind not in never)
        counts = Counter(map(FlowClasses(label, ()).name_of, nodes))
        return FlowClasses(label, (*sorted(name for name, times in counts.items() if times >= least_count), OTHER))

    def name_of(self, node: Node) -> str:
        """The name of a node's class; without a subkind it is the kind."""
        return node.attributes.get("subkind", node.kind) if self.label == "subkind" else node.kind

    def numbers(self, nodes: Sequence[Node]) -> list[int]:
        """The class of each node."""
        names = [self.name_of(node) for node in nodes]
        known, rest = {name: number for number, name in enumerate(self.names)}, len(self.names) - max(1, self.buckets)
        rare = {name: rest + (bucket(name, self.buckets) if self.buckets else 0) for name in {*names} - known.keys()}
        return [known[name] if name in known else rare[name] for name in names]

    def with_own_names(self, nodes: Sequence[Node]) -> FlowClasses:
        """These classes with an organisation's own words in the place of the names of their buckets.

        Args:
            nodes: The nodes of its flows. Words of one bucket are joined by "or".
        """
        found: dict[int, set[str]] = {}
        for node, number in zip(nodes, self.numbers(nodes), strict=True):
            if number >= len(self.names) - self.buckets:
                found.setdefault(number, set()).add(self.name_of(node))
        names = [" or ".join(sorted(found[i])) if i in found else name for i, name in enumerate(self.names)]
        return replace(self, names=tuple(names))


def never_targets(dialect: Dialect) -> frozenset[str]:
    """The kinds that are never predicted."""
    return frozenset(NEVER_TARGETS) if dialect == PLATFORM else frozenset({dialect.start})


def schema_of(corpus: Corpus, label: Label, leave_out: Sequence[str] = ()) -> FlowSchema:
    """The vocabularies of a whole corpus. Subkinds are attributes of nodes only if they are also predicted."""
    flows = [flow for o in corpus.organisations for flow in (*o.flows, *o.extra)]
    return FlowSchema.of(flows, [*leave_out, *(["subkind"] if label == "kind" else [])], LEAST_WORDS)


def federation_of(
    corpus: Corpus,
    schema: FlowSchema,
    classes: FlowClasses,
    *,
    test_share: float = 0.15,
    valid_share: float = 0.15,
    seed: int = 0,
    title: str = "",
) -> tuple[Federation, FlowTable]:
    """A client per organisation, and the table that the points of all clients are cut from.

    Shares are shares of points, by whole flows. The global test set is all test parts, without extra flows.
    """
    _check_shares(test_share, valid_share)
    organisations, start = corpus.organisations, corpus.dialect.start
    flows: list[Flow] = []
    orders: list[list[int]] = []
    for organisation in organisations:
        for kind, some in enumerate((organisation.flows, organisation.extra)):
            flows += some
            purpose = f"flow of {organisation.name}"  # so that other clients make no difference
            orders += [placement_order(flow, key(seed, purpose, kind, i), start) for i, flow in enumerate(some)]
    table = FlowTable.of(flows, orders, schema)
    nodes = [flow.nodes[i] for flow, order in zip(flows, orders, strict=True) for i in order]
    never = never_targets(corpus.dialect)
    points, rows = table.points(torch.tensor([node.kind not in never for node in nodes], dtype=torch.bool))
    labels = torch.tensor(classes.numbers(nodes))[rows]

    sizes = np.bincount(points[:, 0].numpy(), minlength=len(flows))
    copies, shared = _copies(organisations, flows)
    owners, parts = np.zeros(len(flows), dtype=np.int64), np.full(len(flows), EXTRA)
    first = 0
    for client, organisation in enumerate(organisations):
        last = first + len(organisation.flows)
        owners[first : last + len(organisation.extra)] = client
        able = first + np.flatnonzero(sizes[first:last])
        if not len(able):
            raise FedloomError(f"organisation '{organisation.name}' has no action to predict: remove it.")
        random = numpy_generator(seed, f"split of {organisation.name}")
        parts[able] = _split(sizes[able], copies[able], shared[able], test_share, valid_share, random)
        first = last + len(organisation.extra)
    owner, part = owners[points[:, 0]], parts[points[:, 0]]

    def samples_of(*some: int) -> Ragged:
        chosen = np.flatnonzero(np.isin(part, some))
        return Ragged.by_owner(chosen, owner[chosen], len(organisations))

    nominal = np.bincount(owner[part != EXTRA], minlength=len(organisations))
    federation = Federation(
        {"x": points, "y": labels},
        samples_of(TRAIN),
        samples_of(TEST, EXTRA),
        samples_of(VALID),
        len(classes.names),
        global_test=torch.from_numpy(np.flatnonzero(part == TEST)),
        names=tuple(organisation.name for organisation in organisations),
        class_names=classes.names,
        title=title or corpus.title,
        counted=torch.from_numpy(nominal),
    )
    return federation, table


def _check_shares(test_share: float, valid_share: float) -> None:
    for name, share in (("test_share", test_share), ("valid_share", valid_share)):
        check_value(name, share, ShareBelowOne)
    if test_share + valid_share >= 1:
        raise FedloomError(
            f"test_share={test_share} and valid_share={valid_share} leave nothing for training: lower them."
        )


def _copies(organisations: Sequence[Organisation], flows: Sequence[Flow]) -> tuple[np.ndarray, np.ndarray]:
    """The number of each flow, the same for its copies, and whether several organisations have it."""
    copies = duplicate_numbers(flows)
    holder = np.repeat(np.arange(len(organisations)), [len(o.flows) + len(o.extra) for o in organisations])
    holders = np.unique(np.stack([copies, holder]), axis=1)[0]
    return copies, (np.bincount(holders) > 1)[copies]


def _split(
    sizes: np.ndarray,
    copies: np.ndarray,
    shared: np.ndarray,
    test_share: float,
    valid_share: float,
    random: np.random.Generator,
) -> np.ndarray:
    """The part of each of a client's flows: the shares of points are met as nearly as whole flows allow.

    Copies are in one part, and flows that other clients have too are for training. If there are too few flows, training
    gets one first, then testing, then validation.
    """
    _, first, of = np.unique(copies[~shared], return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))[of]  # flows in the order of their first copy
    points, whole = np.bincount(rank, sizes[~shared]), sizes.sum()
    order, flows = random.permutation(len(points)), len(points) + int(shared.any())
    middle = (np.cumsum(points[order]) - points[order] / 2) / whole
    test, both = (int(np.searchsorted(middle, share)) for share in (test_share, test_share + valid_share))
    test = min(max(test, int(test_share > 0)), len(points), flows - 1)
    valid = min(max(both - test, int(valid_share > 0)), len(points) - test, flows - 1 - test)
    side = np.full(len(points), TRAIN)
    side[order[:test]], side[order[test : test + valid]] = TEST, VALID
    parts = np.full(len(sizes), TRAIN)
    parts[~shared] = side[rank]
    return parts
