"""How the list of n8n's public words that Fedloom ships (``n8n_words.json``) is made of the public templates.

Kinds are the types of n8n's own two packages, with the number of their nodes in all templates. An operation, a resource
or a version is public if templates of at least three owners have it in a node of these types.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from fedloom.tasks.flows.corpus import Corpus

OWN_PACKAGES = ("n8n-nodes-base.", "@n8n/n8n-nodes-langchain.")
LEAST_OWNERS = 3


def derive_words(corpus: Corpus) -> dict[str, Any]:
    """The public words of a corpus of n8n templates."""
    kinds: Counter[str] = Counter()
    owners: dict[str, dict[str, set[str]]] = {name: defaultdict(set) for name in ("operation", "resource", "version")}
    categories: set[str] = set()
    for organisation in corpus.organisations:
        for flow in organisation.flows:
            categories.update({flow.attributes["category"]} if "category" in flow.attributes else ())
            for node in flow.nodes:
                if node.kind == "End" or node.kind.startswith(OWN_PACKAGES):
                    kinds[node.kind] += 1
                    for name, words in owners.items():
                        words[node.attributes.get(name, "")].add(organisation.name)
    often = {
        name: sorted(word for word, some in words.items() if len(some) >= LEAST_OWNERS and word)
        for name, words in owners.items()
    }
    return {"kind": dict(sorted(kinds.items())), **often, "category": sorted(categories)}
