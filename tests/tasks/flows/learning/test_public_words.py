"""A vocabulary of public words and buckets: the same on every machine, and made without anybody's flows."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Flow, Node
from fedloom.tasks.flows.formats.read_corpus import read_folder
from fedloom.tasks.flows.formats.real_corpora import N8N_FILE, read_n8n
from fedloom.tasks.flows.learning import public_words as subject
from fedloom.tasks.flows.learning.flow_federation import FlowClasses
from fedloom.tasks.flows.learning.flow_schema import UNKNOWN, FlowSchema, Vocabulary, bucket
from fedloom.tasks.flows.learning.flow_task import task_of_corpus
from fedloom.tasks.flows.learning.public_words import public_classes, public_schema, public_words
from fedloom.tasks.flows.rules import BPMN, DIALECTS, N8N, PLATFORM, Dialect
from support import small_flows
from support.n8n_exports import made_workflows, write_exports
from support.n8n_public_words import derive_words
from support.paths import DATA_FOLDER


def test_the_bucket_of_a_word_is_the_same_everywhere() -> None:
    assert [bucket(word, 256) for word in ("", "acmeLedger", "größe")] == [
        180,
        136,
        233,
    ]  # the last byte of b2sum -l 64


@given(st.text(), st.integers(1, 500), st.lists(st.text(max_size=3), unique=True, max_size=5))
def test_with_buckets_no_word_is_unknown_and_listed_words_keep_their_tokens(
    word: str, buckets: int, listed: list[str]
) -> None:
    vocabulary = Vocabulary(tuple(listed), buckets)
    number = vocabulary.number(word)
    assert vocabulary.numbers([word, word]) == [number, number]
    if word in listed:
        assert number == Vocabulary(tuple(listed)).number(word)
    else:
        assert 2 + len(listed) <= number < len(vocabulary)
        assert Vocabulary(tuple(listed)).number(word) == UNKNOWN


def test_words_spread_over_buckets_as_a_hash_should() -> None:
    counts = Counter(bucket(f"private name {i}", 64) for i in range(6_400))
    expected = 100.0
    statistic = sum((counts[i] - expected) ** 2 / expected for i in range(64))
    assert statistic < 103.4  # the 0.999 quantile of chi-square with 63 degrees of freedom


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_a_schema_with_buckets_goes_through_json_unchanged(dialect: Dialect) -> None:
    schema = public_schema(dialect, "kind", 7)
    assert FlowSchema.from_json(schema.to_json()) == schema
    assert FlowSchema.from_plain(json.loads(json.dumps(schema.to_plain()))) == schema
    opened = {name for part in (schema.node, schema.edge, schema.graph) for name, v in part.items() if v.buckets}
    assert opened == public_words(dialect.name).open


@pytest.mark.parametrize("buckets", [-1, 1.5, True, "7", 1 << 20])
def test_a_schema_with_an_impossible_number_of_buckets_is_refused(buckets: object) -> None:
    plain = public_schema(N8N, "kind", 7).to_plain()
    plain["node"]["kind"]["buckets"] = buckets
    with pytest.raises(FedloomError, match="not a schema of flows"):
        FlowSchema.from_plain(plain)


def test_tokens_of_a_flow_do_not_depend_on_other_organisations(tmp_path: Path) -> None:
    """The vocabulary is agreed without pooling: one owner's tokens and classes are the same whoever else is there."""
    for owner in ("acme", "zeta", "omni"):
        write_exports(tmp_path / owner, made_workflows(owner, 4))
    corpus = read_folder(tmp_path)
    alone = Corpus((corpus.organisations[0],), N8N)
    together, single = (task_of_corpus(some, buckets=16, seed=1) for some in (corpus, alone))
    assert together.prepare.schema == single.prepare.schema
    assert together.federation.class_names == single.federation.class_names
    count = len(single.federation.columns["y"])
    assert together.federation.columns["y"][:count].tolist() == single.federation.columns["y"].tolist()
    assert together.prepare.table.nodes[: len(single.prepare.table.nodes)].equal(single.prepare.table.nodes)
    pooled = task_of_corpus(corpus).prepare.schema, task_of_corpus(alone).prepare.schema
    assert pooled[0] != pooled[1]


def test_no_private_word_is_in_the_vocabulary_or_the_classes(tmp_path: Path) -> None:
    write_exports(tmp_path / "acme", made_workflows("acme", 6))
    task = task_of_corpus(read_folder(tmp_path), buckets=16)
    assert "acme" not in task.prepare.schema.to_json() + " ".join(task.federation.class_names)
    pooled = task_of_corpus(read_folder(tmp_path))
    assert "acme" in pooled.prepare.schema.to_json()


def test_classes_are_frequent_public_kinds_and_buckets() -> None:
    classes = public_classes(N8N, "kind", 1_000, 5)
    counts = public_words("n8n").counts
    assert set(classes.names[:-5]) == {kind for kind, times in counts.items() if times >= 1_000}
    assert classes.names[-5:] == tuple(f"bucket {i}" for i in range(1, 6))
    nodes = [Node("1", "End"), Node("2", "@acme/n8n-nodes-acme.post"), Node("3", "n8n-nodes-base.dhlTool")]
    numbers = classes.numbers(nodes)
    assert classes.names[numbers[0]] == "End"
    assert numbers[1:] == [len(classes.names) - 5 + bucket(node.kind, 5) for node in nodes[1:]]


def test_an_organisation_reads_its_own_words_in_the_place_of_buckets() -> None:
    classes = FlowClasses("kind", ("End", "bucket 1", "bucket 2"), 2)
    names = [f"acme{i}" for i in range(6)]
    own = classes.with_own_names([Node(name, name) for name in names])
    assert own.names[0] == "End"
    for number in (0, 1):
        assert own.names[1 + number] == " or ".join(name for name in names if bucket(name, 2) == number)
    assert classes.with_own_names([Node("1", "End")]) == classes


@pytest.mark.parametrize(("dialect", "label"), [(PLATFORM, "kind"), (PLATFORM, "subkind"), (BPMN, "kind")])
def test_closed_kinds_have_no_buckets(dialect: Dialect, label: str) -> None:
    classes = public_classes(dialect, label, 100, 5)
    assert classes.buckets == 0
    assert not any(name.startswith("bucket") for name in classes.names)
    if dialect == PLATFORM:
        assert classes == FlowClasses.of(small_flows.corpus(), label)


def test_a_dialect_without_public_words_says_so() -> None:
    own = replace(N8N, name="ours")
    corpus = Corpus((Organisation("a", (Flow((Node("1", "Start"),), ()),)),), own)
    with pytest.raises(FedloomError, match="the dialect 'ours' has no list of public words"):
        task_of_corpus(corpus, buckets=4)


def test_the_vocabulary_is_an_option_of_flow_tasks() -> None:
    task = fl.task("flows", clients=2, options={"largest": 600, "vocabulary": "public", "buckets": 32})
    assert task.made_from["options"]["vocabulary"] == "public"
    assert task.prepare.schema == public_schema(PLATFORM, "kind", 32)
    for wrong, said in (
        ({"vocabulary": "secret"}, "vocabulary"),
        ({"buckets": 0}, "at least 1 and at most 65,536"),
    ):
        with pytest.raises(FedloomError, match=said):
            fl.task("flows", clients=2, options=wrong)


@pytest.mark.skipif(not (DATA_FOLDER / N8N_FILE).is_file(), reason="the n8n corpus is not in the data folder")
@pytest.mark.slow
def test_the_list_of_n8n_words_is_what_the_public_templates_give() -> None:
    shipped = Path(subject.__file__).with_name("n8n_words.json")
    assert json.loads(shipped.read_text()) == derive_words(read_n8n(DATA_FOLDER))
