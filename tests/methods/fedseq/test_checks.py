"""Which methods run inside chains, and which chains can be encrypted."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from support.chains import six_clients
from support.checkpoints import WORK

PAIRS = [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "encrypt=true needs chains that are in the plan"),
        ({"grouping": "random"}, "encrypt=true needs chains that are in the plan"),
        ({"chains": [[0, 1], [2]]}, "cannot hide the model of client 2, which is a chain of its own"),
        ({"chains": PAIRS, "dropout": 0.5}, "dropout=0.5 can leave one member of a chain"),
    ],
)
def test_chains_that_cannot_be_encrypted_are_refused(settings, words):
    with pytest.raises(FedloomError, match=words):
        fl.FedSeq(encrypt=True, **settings)


def test_a_method_whose_members_keep_something_is_not_encrypted():
    method = fl.FedSeq(chains=PAIRS, encrypt=True, inner="feddyn")
    with pytest.raises(FedloomError, match=r"feddyn lets members keep .* use fedavg or fedprox as inner"):
        fl.run(six_clients(), method, rounds=1, local=WORK)


@pytest.mark.parametrize("step", ["topk", "qsgd", "sign", "cmfl", "securesum"])
def test_a_step_that_needs_single_readable_replies_is_refused(step):
    with pytest.raises(FedloomError, match=rf"^({step} .*, and fedseq|fedseq .*, and {step}) "):
        fl.run(six_clients(), fl.FedSeq(chains=PAIRS, encrypt=True), rounds=1, channel=[step], local=WORK)


@pytest.mark.parametrize("downlink", [{"precision": "float16"}, {"delta": True}])
def test_a_model_that_the_server_cannot_read_is_not_coded_on_its_way_down(downlink):
    with pytest.raises(FedloomError, match=r"^downlink (codes the model|with delta) .*, and fedseq"):
        fl.run(six_clients(), fl.FedSeq(chains=PAIRS, encrypt=True), rounds=1, downlink=downlink, local=WORK)


def test_an_attack_at_the_server_is_refused_and_one_at_the_clients_acts_as_in_open_chains():
    encrypted, plain = (fl.FedSeq(chains=PAIRS, encrypt=encrypt) for encrypt in (True, False))
    how = {"rounds": 1, "local": WORK}
    with pytest.raises(FedloomError, match=r"^alie looks at models.*, and fedseq lets members encrypt"):
        fl.run(six_clients(), encrypted, adversary={"name": "alie", "clients": [0, 2]}, **how)
    hostile = {"name": "signflipping", "clients": [0]}
    one, other = (fl.run(six_clients(), method, adversary=hostile, **how) for method in (encrypted, plain))
    assert one.row.equal(other.row)


@pytest.mark.parametrize(
    "more",
    [
        {
            "aggregation": {"name": "privatemean", "noise": 1.0, "clip": 0.5, "seeded": True},
            "selection": {"name": "poisson", "rate": 0.997},
        },
        {"sample_privacy": {"noise": 1.0, "clip": 1.0, "seeded": True}},
        {"aggregation": "median"},
    ],
    ids=["privatemean", "sample_privacy", "median"],
)
def test_noise_and_rules_over_the_ends_of_chains_act_as_in_open_chains(more):
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    methods = (fl.FedSeq(chains=PAIRS, encrypt=encrypt) for encrypt in (True, False))
    one, other = (fl.run(six_clients(), method, rounds=2, eval_every=0, local=WORK, **more) for method in methods)
    assert one.row.equal(other.row)
