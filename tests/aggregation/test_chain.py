"""Rules that act in turn: what the next one gets, what each remembers, and who may stand where."""

from dataclasses import dataclass

import pytest
import torch

import fedloom as fl
from fedloom.aggregation.chain import AggregatorChain
from fedloom.aggregation.foolsgold import FoolsGold
from fedloom.aggregation.krum import MultiKrum
from fedloom.aggregation.mean import Mean
from fedloom.aggregation.median import Median
from fedloom.config.compatibility import parts_of
from fedloom.config.resolve import read_run_file, resolve
from fedloom.core.aggregator import TOLERATED, Aggregator
from fedloom.core.errors import FedloomError
from fedloom.methods.fedavg import FedAvg
from support.aggregations import aggregate, honest_rows

BOTH = ["foolsgold", {"name": "multikrum", "share": 0.15}]


@dataclass(frozen=True)
class Trusts(Aggregator):
    """Trusts clients as far as the test says."""

    by: tuple[float, ...] = ()

    def trust(self, rows, context):
        return torch.tensor(self.by)


@dataclass(frozen=True)
class Looks(Aggregator):
    """Shows what a rule in a chain gets."""

    def __call__(self, rows, weights, context):
        context.memory["ids"] = torch.tensor(context.ids)
        context.memory["weights"] = weights
        return rows.sum(0)


def test_the_last_rule_gets_the_rows_of_clients_with_any_trust_and_weights_times_it():
    memory: dict[str, torch.Tensor] = {}
    chain = AggregatorChain((Trusts((1.0, 0.0, 0.5)), Looks()))
    found = aggregate(chain, [[1.0], [10.0], [100.0]], [0.25, 0.25, 0.5], ids=[4, 7, 9], memory=memory)
    assert found.tolist() == [101.0]
    assert memory["1.ids"].tolist() == [4, 9]
    assert memory["1.weights"].tolist() == [0.5, 0.5]


def test_origins_of_their_own_follow_their_clients():
    chain = AggregatorChain((Trusts((0.0, 1.0, 1.0)), Mean()))
    origin = torch.tensor([[9.0], [1.0], [2.0]])
    nobody = AggregatorChain((Trusts((0.0, 1.0, 1.0)), Trusts((0.0, 0.0)), Mean()))
    assert aggregate(chain, [[9.0], [1.0], [4.0]], ids=[0, 1, 2], origin=origin).tolist() == [2.5]
    assert aggregate(nobody, [[9.0], [1.0], [4.0]], ids=[0, 1, 2], origin=origin).tolist() == [1.5]


def test_where_nobody_is_trusted_nothing_changes():
    chain = AggregatorChain((Trusts((0.0, 0.0)), Median()))
    assert aggregate(chain, [[5.0], [6.0]], ids=[0, 1], origin=torch.tensor([2.0])).tolist() == [2.0]


@dataclass(frozen=True)
class Doubles(Mean):
    """Doubles what another rule makes, and counts how often."""

    def refine(self, row, context):
        context.memory["rounds"] = context.memory.get("rounds", torch.zeros(())) + 1
        return 2 * row


def test_a_rule_that_refines_stands_behind_the_one_that_makes_the_row_also_where_nobody_is_trusted():
    memory: dict[str, torch.Tensor] = {}
    rows, ids = [[1.0], [2.0], [9.0]], [0, 1, 2]
    assert aggregate(AggregatorChain((Median(), Doubles())), rows, ids=ids, memory=memory).tolist() == [4.0]
    assert memory["1.rounds"] == 1
    behind_trust = AggregatorChain((Trusts((1.0, 0.0, 1.0)), Median(), Doubles()))
    assert aggregate(behind_trust, rows, ids=ids).tolist() == [10.0]
    nobody = AggregatorChain((Trusts((0.0, 0.0, 0.0)), Median(), Doubles()))
    assert aggregate(nobody, rows, ids=ids, origin=torch.tensor([3.0])).tolist() == [6.0]


def test_what_a_chain_withstands_is_what_its_rule_that_makes_the_row_does():
    chain = AggregatorChain((MultiKrum(share=0.4), Doubles()))
    assert chain.tolerated(8) == MultiKrum(share=0.4).tolerated(8) == 2


def test_foolsgold_in_front_of_the_weighted_mean_is_foolsgold_alone():
    rows = torch.cat([honest_rows(4, 6, 0), honest_rows(1, 6, 9).expand(3, 6)])
    alone, chained = (
        aggregate(rule, rows, ids=list(range(7)), origin=torch.zeros(6), memory={})
        for rule in (FoolsGold(), AggregatorChain((FoolsGold(), Mean())))
    )
    assert torch.allclose(alone, chained, atol=1e-6)


def test_each_rule_finds_what_the_other_cannot_see():
    """Four sybils agree more than five honest clients do; one more hostile client is alone and large."""
    honest = honest_rows(5, 40, 0)
    sybils = (3 * honest_rows(1, 40, 8)).expand(4, 40)
    rows = torch.cat([sybils, honest, torch.full((1, 40), 3e38)])
    rules = (FoolsGold(), MultiKrum(share=0.2), AggregatorChain((FoolsGold(), MultiKrum(share=0.2))))
    foolsgold, krum, both = (
        aggregate(rule, rows, ids=list(range(10)), origin=torch.zeros(40), memory={}) for rule in rules
    )
    assert float(foolsgold.norm()) > 1e6
    assert float((krum - honest.mean(0)).norm()) > 3
    assert bool((both >= honest.amin(0) - 1e-5).all())
    assert bool((both <= honest.amax(0) + 1e-5).all())


def test_each_rule_of_a_chain_remembers_apart():
    memory: dict[str, torch.Tensor] = {}
    chain = AggregatorChain((FoolsGold(), fl.CentredClipping()))
    for number in (1, 2):
        rows = honest_rows(4, 6, number)
        aggregate(chain, rows, ids=[0, 1, 2, 3], origin=torch.zeros(6), memory=memory, number=number)
    assert set(memory) == {"0.clients", "0.sums", "1.centre"}
    assert torch.allclose(memory["0.sums"], honest_rows(4, 6, 1) + honest_rows(4, 6, 2))


def test_a_rule_that_gets_fewer_rows_says_that_it_withstands_less():
    findings: dict[str, float] = {}
    rows = torch.cat([honest_rows(3, 20, 0), honest_rows(1, 20, 8).expand(4, 20)])
    chain = AggregatorChain((FoolsGold(), MultiKrum(share=0.2)))
    aggregate(chain, rows, ids=list(range(7)), findings=findings)
    assert findings == {TOLERATED: 0}


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (["multikrum", "foolsgold"], "multikrum makes one row and leaves nothing for foolsgold: only rules that say"),
        (["foolsgold", "median", "mean"], "median makes one row and leaves nothing for mean"),
        (["servertraining", "median"], "servertraining makes one row and leaves nothing for median"),
        ([], "name at least one aggregator"),
        (["foolsgold", "multikrom"], "Did you mean 'multikrum'"),
        (["foolsgold", {"name": "krum", "share": 0.4}], "foolsgold, krum needs at least 7 clients in a round"),
    ],
)
def test_what_cannot_be_chained_is_refused(rules, said):
    with pytest.raises(FedloomError, match=said):
        fl.run(fl.task("digits", clients=6), "fedavg", rounds=1, aggregation=rules)


def test_one_rule_in_a_list_is_that_rule():
    assert resolve({"aggregation": ["median"]}).aggregation == Median()


def test_a_chain_is_the_union_of_its_rules_facts():
    task = fl.task("digits", clients=6, communal_per_class=2)
    config = resolve({"aggregation": ["foolsgold", "fltrust"]})
    named = {part.name: part for part in parts_of(config, FedAvg(), task, "loop", deployed=False)}
    alone = {
        rule: next(
            part
            for part in parts_of(resolve({"aggregation": rule}), FedAvg(), task, "loop", deployed=False)
            if part.name == rule
        )
        for rule in ("foolsgold", "fltrust")
    }
    assert {name: named[name] for name in alone} == alone


def test_a_chain_runs_from_its_names_is_written_down_and_resumes_to_the_same_bytes(tmp_path):
    class Stop(Exception):  # noqa: N818
        pass

    def stop(record):
        if record["round"] == 2:
            raise Stop

    task = fl.task("digits", clients=8)
    whole = fl.run(task, "fedavg", rounds=4, aggregation=BOTH, out=tmp_path / "whole")
    assert [one["name"] for one in whole.config["aggregation"]] == ["foolsgold", "multikrum"]
    with pytest.raises(Stop):
        fl.run(task, "fedavg", rounds=4, aggregation=BOTH, out=tmp_path / "parts", observers=[stop])
    fl.resume(tmp_path / "parts", task=task)
    for name in ("metrics.jsonl", "clients.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_objects_and_names_may_be_mixed_in_a_comparison(tmp_path):
    rules = ["foolsgold", fl.MultiKrum(share=0.15)]
    results = fl.compare("digits", ["fedavg", "local"], rounds=1, aggregation=rules, out=tmp_path)
    assert [len(runs[0].config["aggregation"]) for runs in results.values()] == [2, 1]


def test_foolsgold_alone_says_what_it_does_not_see(caplog):
    task = fl.task("digits", clients=8)
    fl.run(task, "fedavg", rounds=1, aggregation="foolsgold")
    assert caplog.text.count("a single one moves its mean anywhere: put a robust rule behind it") == 1
    caplog.clear()
    fl.run(task, "fedavg", rounds=1, aggregation=BOTH)
    assert "put a robust rule behind it" not in caplog.text


# -- the stack that document 000 proposes: TLS, noise, FoolsGold and a robust rule


STACK = {
    "selection": {"name": "random", "fraction": 1.0},
    "aggregation": BOTH,
    "channel": [{"name": "localnoise", "noise": 0.02, "clip": 5.0, "seeded": True}],
}


def test_noise_of_the_server_with_a_rule_is_refused_with_the_reason_and_what_to_do():
    said = (
        r"privatemean covers by its noise what one client adds to the sum, .* and foolsgold weighs each client by how "
        r".*: let clients add the noise \(channel localnoise, or sample_privacy\)"
    )
    for rule in ("foolsgold", "multikrum"):
        with pytest.raises(FedloomError, match=said if rule == "foolsgold" else "and multikrum decides by what"):
            fl.run("digits", "fedavg", rounds=1, aggregation=[rule, "privatemean"], selection="poisson:rate=0.5")


def test_noise_of_the_clients_goes_with_foolsgold_and_a_robust_rule():
    task = fl.task("digits", clients=10, partition=fl.iid())
    adversary = {"name": "signflipping", "fraction": 0.1}
    history = fl.run(task, "fedavg", rounds=5, adversary=adversary, eval_every=5, **STACK)
    assert history.last("global_model/global_test/accuracy") > 0.6
    assert history.last("privacy/local_epsilon") > 0


def test_a_run_file_names_a_chain_as_a_list(tmp_path):
    (tmp_path / "run.toml").write_text('aggregation = ["foolsgold", "multikrum:share=0.15"]\n')
    config = resolve(read_run_file(tmp_path / "run.toml"))
    assert config.aggregation == AggregatorChain((FoolsGold(), MultiKrum(share=0.15)))


def test_equal_rules_of_a_chain_remember_apart_too():
    memory: dict[str, torch.Tensor] = {}
    twice = AggregatorChain((FoolsGold(), FoolsGold()))
    aggregate(twice, honest_rows(4, 6, 1), ids=[0, 1, 2, 3], origin=torch.zeros(6), memory=memory)
    assert {"0.sums", "1.sums"} <= set(memory)


def test_a_comparison_says_once_what_a_rule_alone_does_not_see(caplog):
    fl.compare(fl.task("digits", clients=4), ["fedavg", "fedprox"], rounds=1, seeds=2, aggregation="foolsgold")
    assert caplog.text.count("put a robust rule behind it") == 1
