"""Words to numbers: the vocabulary of every attribute of nodes, edges and flows.

Vocabularies are shared. They are the words of all organisations' flows, or words that were public before anybody joined
and a number of buckets for all others (``public_words``). What a private word means may differ between organisations:
that is what personalised models are for. Token 0 is the mask (of the node to predict), token 1 is every unknown word. A
saved model contains its schema as JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.core.settings import WholeNumber, check_value
from fedloom.tasks.flows.flow import Edge, Flow, Node

MASK, UNKNOWN = 0, 1
MOST_BUCKETS = 65_536
"""The most buckets that a vocabulary may have."""
NODE, EDGE, GRAPH = 117, 18, 163
"""The embedding widths of the thesis, over all attributes of a node, of an edge and of a flow (kinds as classes)."""
SUBKIND_NODE, SUBKIND_GRAPH = 119, 165
"""The same where subkinds are the classes."""


@dataclass(frozen=True)
class Vocabulary:
    """The words of one attribute; word i is token i + 2. The empty word is a missing value.

    With ``buckets`` no word is unknown: the tokens after the listed words are buckets, and every other word is in one.
    """

    tokens: tuple[str, ...]
    buckets: int = 0

    def __post_init__(self) -> None:
        check_value("buckets", self.buckets, WholeNumber)
        if len(set(self.tokens)) < len(self.tokens):
            twice = Counter(self.tokens).most_common(1)[0][0]
            raise FedloomError(f"a vocabulary contains the word '{twice}' twice.")

    def __len__(self) -> int:
        return 2 + len(self.tokens) + self.buckets

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens, start=2)}

    def number(self, word: str) -> int:
        """The token of a word."""
        known = self._numbers.get(word)
        if known is not None or not self.buckets:
            return UNKNOWN if known is None else known
        return 2 + len(self.tokens) + bucket(word, self.buckets)

    def numbers(self, words: Iterable[str]) -> list[int]:
        """The tokens of words."""
        known, listed = dict[str, int](), list(words)
        for word in set(listed):
            known[word] = self.number(word)
        return [known[word] for word in listed]


def bucket(word: str, buckets: int) -> int:
    """The bucket of a word, from 0: the same on every machine, whoever asks."""
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()) % buckets


Vocabularies = dict[str, Vocabulary]


@dataclass(frozen=True)
class FlowSchema:
    """The attributes of nodes (``kind`` is the first), of edges (``label``) and of flows, with their vocabularies."""

    node: Vocabularies
    edge: Vocabularies
    graph: Vocabularies

    @staticmethod
    def of(flows: Sequence[Flow], leave_out: Collection[str] = (), least: int = 1) -> FlowSchema:
        """The schema of some flows; flows without attributes get one that is always empty.

        Args:
            leave_out: names of attributes that are not used.
            least: words that occur less often are unknown.
        """
        nodes, edges = [n for flow in flows for n in flow.nodes], [e for flow in flows for e in flow.edges]

        def vocabularies(elements: Sequence[Any], always: Sequence[str], read: AttributeReader) -> Vocabularies:
            found = {name for element in elements for name in element.attributes} - set(leave_out)
            names = [*always, *sorted(found - set(always))] or ["flow"]
            counts = {name: Counter(map(read(name), elements)) for name in names}
            return {
                name: Vocabulary(tuple(sorted(word for word, times in words.items() if times >= least)))
                for name, words in counts.items()
            }

        return FlowSchema(
            vocabularies(nodes, ["kind"], node_reader),
            vocabularies(edges, ["label"], edge_reader),
            vocabularies(flows, [], flow_reader),
        )

    def to_json(self) -> str:
        """The schema as JSON text."""
        return json.dumps(self.to_plain(), ensure_ascii=False)

    def to_plain(self) -> dict[str, Any]:
        """The schema as values for JSON: the words of each attribute, with its number of buckets if it has some."""
        return {part: {name: _plain(v) for name, v in getattr(self, part).items()} for part in _PARTS}

    @staticmethod
    def from_json(text: str) -> FlowSchema:
        """The schema that a JSON text holds."""
        try:
            return FlowSchema.from_plain(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise _no_schema(error) from None

    @staticmethod
    def from_plain(plain: Any) -> FlowSchema:
        """The schema that ``to_plain`` made."""
        try:
            parts = {part: {str(n): _vocabulary(words) for n, words in plain[part].items()} for part in _PARTS}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _no_schema(error) from None
        if "kind" not in parts["node"] or "label" not in parts["edge"] or not parts["graph"]:
            raise FedloomError(
                "this is not a schema of flows: it needs 'kind' of nodes, 'label' of edges and an attribute of graphs."
            )
        return FlowSchema(**parts)


_PARTS = ("node", "edge", "graph")
AttributeReader = Callable[[str], Callable[[Any], str]]
"""Maps an attribute's name to a function that reads this attribute of an element."""


def node_reader(name: str) -> Callable[[Node], str]:
    """A function that reads an attribute of nodes."""
    if name == "kind":
        return lambda node: node.kind
    return lambda node: node.attributes.get(name, "")


def edge_reader(name: str) -> Callable[[Edge], str]:
    """A function that reads an attribute of edges."""
    if name == "label":
        return lambda edge: edge.label
    return lambda edge: edge.attributes.get(name, "")


def flow_reader(name: str) -> Callable[[Flow], str]:
    """A function that reads an attribute of flows."""
    return lambda flow: flow.attributes.get(name, "")


def embedding_widths(vocabularies: Mapping[str, Vocabulary], total: int) -> list[int]:
    """The embedding width of each attribute: proportional to the logarithm of its vocabulary, ``total`` in all."""
    if total < len(vocabularies):
        raise FedloomError(
            f"{len(vocabularies)} attributes do not fit into an embedding of width {total}: leave some attributes out."
        )
    weights = [math.log2(len(vocabulary)) for vocabulary in vocabularies.values()]
    exact = [(total - len(weights)) * weight / sum(weights) for weight in weights]
    shares = [1 + math.floor(share) for share in exact]
    by_rest = sorted(range(len(shares)), key=lambda i: (math.floor(exact[i]) - exact[i], i))
    for i in by_rest[: total - sum(shares)]:
        shares[i] += 1
    return shares


def embedding_tables(vocabularies: Mapping[str, Vocabulary], total: int) -> list[tuple[int, int]]:
    """For each attribute the size of its vocabulary and the width of its embedding, as a model needs them."""
    sizes = [len(vocabulary) for vocabulary in vocabularies.values()]
    return list(zip(sizes, embedding_widths(vocabularies, total), strict=True))


def _no_schema(error: Exception) -> FedloomError:
    return FedloomError(
        f"this is not a schema of flows ({type(error).__name__}): it must list the words of each attribute "
        f"under {', '.join(_PARTS)}."
    )


def _plain(vocabulary: Vocabulary) -> list[str] | dict[str, Any]:
    words = list(vocabulary.tokens)
    return {"words": words, "buckets": vocabulary.buckets} if vocabulary.buckets else words


def _vocabulary(plain: Any) -> Vocabulary:
    words, buckets = (plain["words"], plain["buckets"]) if isinstance(plain, dict) else (plain, 0)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise TypeError
    if type(buckets) is not int or not 0 <= buckets <= MOST_BUCKETS:
        raise ValueError
    return Vocabulary(tuple(words), buckets)
