"""Every attack by clients: with nobody hostile it is the plain run, and neither workers nor stops change a byte."""

import pytest

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.core.adversary import Adversary
from fedloom.registry.kinds import ATTACKS, METHODS
from fedloom.runs.prepare import hostile_clients, prepare
from support.folders import stop_after, written

BY_CLIENTS = ("poison_samples", "poison_task", "poison_update", "collude", "collude_against")
ATTACKS_BY_CLIENTS = [
    name for name in ATTACKS.builtin if any(getattr(ATTACKS[name], f) is not getattr(Adversary, f) for f in BY_CLIENTS)
]


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=6, alpha=1.0)


@pytest.fixture(scope="module")
def plain(task, tmp_path_factory):
    """The files of a run without an adversary."""
    return without_settings(task, tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def plain_row(task):
    return fl.run(task, "fedavg", rounds=4).row


def without_settings(task, folder, **settings):
    """All files of a short run, except for those that name its settings."""
    fl.run(task, "fedavg", rounds=2, out=folder, **settings)
    return {
        name: content for name, content in written(folder).items() if name != "config.toml" and "manifest-" not in name
    }


@pytest.mark.parametrize("attack", ATTACKS_BY_CLIENTS)
def test_with_nobody_hostile_a_run_is_the_plain_run_to_the_byte(task, plain, tmp_path, attack):
    found = without_settings(task, tmp_path / "none", adversary={"name": attack, "fraction": 0})
    assert {"metrics.jsonl", "clients.json", "partition.json"} < found.keys()
    assert any(name.endswith(".safetensors") for name in found)
    assert found == plain


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS_BY_CLIENTS)
def test_workers_and_a_stop_in_the_midst_of_an_attack_change_no_byte(task, plain_row, tmp_path, attack):
    seen = {"variant": "original", "steps": 3} if attack == "gan" else {}  # its others change nothing for anybody else
    run = {"rounds": 4, "adversary": {"name": attack, "fraction": 0.5, "start": 2, "stop": 3, **seen}}
    whole = fl.run(task, "fedavg", out=tmp_path / "whole", **run)
    two = fl.run(task, "fedavg", workers=2, **run)
    assert whole.row.equal(two.row)
    assert whole.records == two.records
    with pytest.raises(KeyboardInterrupt):
        fl.run(task, "fedavg", out=tmp_path / "parts", observers=[stop_after(3)], **run)
    fl.resume(tmp_path / "parts")
    assert written(tmp_path / "whole") == written(tmp_path / "parts")
    assert not whole.row.equal(plain_row), "the attack did something"


@pytest.mark.parametrize("attack", ATTACKS_BY_CLIENTS)
def test_who_is_hostile_is_drawn_by_the_seed_alone(attack):
    def drawn(**settings):
        values = {"adversary": {"name": attack, "fraction": 0.3}, "method": "fedavg", "seed": 3, **settings}
        return hostile_clients(resolve(values), 20).members

    first = drawn()
    assert len(first) == 6
    for changed in ({"rounds": 7}, {"workers": 2}, {"method": "fedprox"}, {"selection": "powerofchoice"}):
        assert drawn(**changed) == first, changed
    assert drawn(adversary={"name": "signflipping", "fraction": 0.3}) == first, "all attacks draw the same clients"
    assert drawn(seed=4) != first


def test_an_attack_without_hostile_clients_is_left_out_of_the_run_and_one_by_the_server_is_not(task):
    def adversary_of(name):
        attack = {"name": name, "fraction": 0} if name in ATTACKS_BY_CLIENTS else name
        config = resolve({"adversary": attack, "method": "fedavg"})
        return prepare(task, METHODS.make("fedavg"), config).composition.hostile

    assert all(adversary_of(name) is None for name in ATTACKS_BY_CLIENTS)
    assert all(adversary_of(name) is not None for name in set(ATTACKS.builtin) - set(ATTACKS_BY_CLIENTS))
