"""What travels, and what it costs."""

import torch

from fedloom.aggregation.mean import Mean
from fedloom.core.message import Message, Replies, Reply, Wave, message_digest
from support.clusters import clients_in_a_plane, server_context


def test_a_shared_tensor_costs_once_per_client_and_an_own_one_once():
    message = Message({"row": torch.zeros(10)}, {"head": torch.zeros(3, 2)})
    assert message.bytes_for(3) == 3 * 10 * 4 + 3 * 2 * 4


def test_bytes_follow_the_dtype():
    assert Message({"mask": torch.zeros(8, dtype=torch.bool)}).bytes_for(5) == 5 * 8
    assert Message({"row": torch.zeros(8, dtype=torch.float64)}).bytes_for(5) == 5 * 8 * 8
    assert Message().bytes_for(5) == 0


def test_clients_see_all_that_is_shared_and_their_own_entries_only():
    message = Message({"row": torch.arange(4.0)}, {"own": torch.tensor([[10.0], [11.0], [12.0]])})
    seen = message.for_clients(torch.tensor([2, 0]))
    assert seen["row"].tolist() == [0, 1, 2, 3]
    assert seen["own"].tolist() == [[12.0], [10.0]]
    assert "own" in seen
    assert "row" in seen
    assert "other" not in seen


def test_what_is_a_clients_own_hides_what_is_shared_under_the_same_name():
    message = Message({"row": torch.zeros(2)}, {"row": torch.ones(1, 2)})
    assert message["row"].tolist() == [[1.0, 1.0]]


def test_a_reply_costs_the_bytes_of_its_tensors_per_client_unless_it_says_otherwise():
    tensors = {"row": torch.zeros(3, 10), "loss": torch.zeros(3)}
    assert Reply(tensors).cost(3).tolist() == [44, 44, 44]
    assert Reply({}).cost(3).tolist() == [0, 0, 0]
    assert Reply(tensors, bytes=torch.tensor([8, 0, 16])).cost(3).tolist() == [8, 0, 16]


def test_replies_are_averaged_with_the_rounds_weights():
    rows = torch.tensor([[0.0, 4.0], [8.0, 0.0]])
    replies = Replies(
        ids=[3, 5],
        tensors={"row": rows},
        samples=torch.tensor([30, 10]),
        steps=torch.tensor([3, 1]),
        weights=torch.tensor([0.75, 0.25]),
        shares=torch.tensor([0.3, 0.1]),
        aggregator=Mean(),
        clients=9,
        context=server_context(clients_in_a_plane(2), 1),
    )
    assert replies.mean("row").tolist() == [2.0, 3.0]
    assert torch.equal(replies["row"], rows)
    alone = replies.only(torch.tensor([False, True]))
    assert alone.ids == [5]
    assert alone.weights.tolist() == [1.0]
    assert alone.mean("row").tolist() == [8.0, 0.0]
    assert alone.samples.tolist() == [10]
    assert alone.steps.tolist() == [1]
    assert alone.shares.tolist() == replies.shares[1:].tolist()


def test_a_wave_to_some_of_its_clients_keeps_what_is_theirs():
    message = Message({"row": torch.zeros(3)}, {"own": torch.tensor([[1.0], [2.0], [3.0]])})
    wave = Wave([5, 1, 8], message, 2, torch.tensor([True, False, True]), torch.tensor([False, False, True]), True)
    some = wave.only([0, 2])
    assert (some.ids, some.turn, some.optional) == ([5, 8], 2, True)
    assert some.message["own"].flatten().tolist() == [1.0, 3.0]
    assert torch.equal(some.message["row"], message["row"])
    assert some.from_server is not None
    assert some.to_server is not None
    assert some.from_server.tolist() == [True, True]
    assert some.to_server.tolist() == [False, True]
    assert wave.only([0, 1, 2]) is wave


def test_a_wave_to_nobody_is_a_wave_without_clients():
    wave = Wave([5, 1], Message({"row": torch.zeros(3)}, {"own": torch.ones(2, 1)})).only([])
    assert wave.ids == []
    assert len(wave.message["own"]) == 0
    assert (wave.from_server, wave.to_server) == (None, None)


def test_no_message_can_be_written_into_the_name_of_another():
    """Names come from a server: without lengths, one of these spelt out the other's bytes."""
    inner, row = torch.tensor([7], dtype=torch.uint8), torch.zeros(2)
    spelt = b"b torch.uint8 (1,) " + bytes([7])
    one = {"a": torch.tensor(list(spelt), dtype=torch.uint8), "row": row}
    other = {f"a torch.uint8 ({len(spelt)},) b": inner, "row": row}
    assert message_digest(one) != message_digest(other)
    assert message_digest(one) == message_digest({name: tensor.clone() for name, tensor in reversed(one.items())})
