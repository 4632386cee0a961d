"""What goes down: rounded models, exact bytes, and the same numbers at a site and on the server."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.channel.downlink import DownChannel
from fedloom.core.errors import Diverged, FedloomError
from fedloom.core.message import Message

CHANNELS = {precision: DownChannel(fl.FedAvg(), fl.Downlink(precision)) for precision in ("float16", "bfloat16")}
LOSS = "global_model/global_test/loss"
METHODS = ["fedavg", "scaffold", "fedrep", "ifca", "fedsgd", "fedseq:min_samples=30,max_clients=3,pretrain_epochs=1"]


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=4, alpha=1.0)


@given(st.lists(st.floats(-6e4, 6e4, width=32), min_size=1, max_size=30))
def test_float16_is_off_by_at_most_its_bound_and_bfloat16_too(numbers):
    row = torch.tensor(numbers)
    for precision, share, least in (("float16", 2.0**-11, 2.0**-25), ("bfloat16", 2.0**-8, 2.0**-134)):
        channel = CHANNELS[precision]
        sent = channel.encode(Message({"row": row}))
        assert sent.bytes_for(3) == 3 * 2 * len(numbers)
        got = channel.decode(sent)["row"]
        assert got.dtype == torch.float32
        assert bool(((got - row).abs() <= (row.abs() * share).clamp(min=least)).all())


def test_only_models_are_rounded():
    message = Message({"row": torch.rand(3), "c": torch.rand(3)}, {"row": torch.rand(2, 3)})
    sent = DownChannel(fl.SCAFFOLD(), fl.Downlink()).encode(message)
    assert sent.shared["row"].dtype == sent.each["row"].dtype == torch.float16
    assert sent.shared["c"] is message.shared["c"]
    assert DownChannel(fl.SCAFFOLD()).encode(message) is message


def test_a_model_that_does_not_fit_is_named():
    message = Message({"row": torch.tensor([1.0, 7e4])})
    with pytest.raises(Diverged, match=r"numbers up to 7e\+04.*use downlink.precision = 'bfloat16'"):
        DownChannel(fl.FedAvg(), fl.Downlink()).encode(message)
    assert DownChannel(fl.FedAvg(), fl.Downlink("bfloat16")).encode(message)["row"].isfinite().all()


@pytest.mark.parametrize("method", METHODS)
def test_half_of_the_models_bytes_go_down_and_the_model_is_nearly_the_same(task, method):
    plain, half = (fl.run(task, method, rounds=3, downlink=how) for how in (None, {"precision": "float16"}))
    assert half.total("bytes_up") == plain.total("bytes_up")
    assert half.total("bytes_down") < 0.76 * plain.total("bytes_down")  # SCAFFOLD's variate stays as it is
    metric = LOSS if plain.last(LOSS) is not None else "client_model/own_test/loss/mean"
    assert half.last(metric) != plain.last(metric)
    assert half.last(metric) == pytest.approx(plain.last(metric), rel=0.05)


def test_clients_start_from_what_arrived(task):
    """With no work at all they reply with the rounded model, which the server then has."""

    class Look(fl.Adversary):
        def look_at_replies(self, wave, replies):
            seen.append((wave.message["row"], replies["row"]))
            return {}

    seen = []
    fl.run(task, "fedavg", rounds=1, local={"steps": 0}, downlink={"precision": "bfloat16"}, adversary=Look())
    (received, replies), initial = seen[0], task.initial_row()
    assert torch.equal(received, initial.bfloat16().float())
    assert torch.equal(replies, received.expand_as(replies))


def test_selectors_that_ask_clients_send_rounded_models_too(task):
    plain, half = (
        fl.run(task, "fedavg", rounds=1, selection={"name": "powerofchoice", "number": 2}, downlink=how)
        for how in (None, fl.Downlink())
    )
    assert 2 * half.total("bytes_down") == plain.total("bytes_down")


def test_workers_and_a_stop_change_no_byte(task, tmp_path):
    how = {"channel": ["topk"], "downlink": {"precision": "bfloat16"}}
    one, two = (fl.run(task, "fedavg", rounds=4, workers=workers, **how) for workers in (1, 2))
    assert one.records == two.records
    fl.run(task, "fedavg", rounds=2, out=tmp_path / "run", **how)
    assert fl.resume(tmp_path / "run", rounds=4, task=task).records[3:] == one.records[3:]


@pytest.mark.parametrize(
    ("method", "downlink", "said"),
    [
        ("fedavg", {"precision": "float8"}, "float16"),
        ("fedavg", {"precisoin": "float16"}, "precis"),
        ("local", {}, "sends no model down"),
        ("fedproto", {}, "sends no model down"),
    ],
)
def test_what_is_wrong_is_said(task, method, downlink, said):
    with pytest.raises(FedloomError, match=said):
        fl.run(task, method, rounds=1, downlink=downlink)
