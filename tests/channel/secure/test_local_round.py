"""A whole secure sum in one process."""

from fedloom.channel.secure.local_round import play_sum
from support.secure_sums import parties


def test_all_stages_of_a_small_network_send_little_more_than_its_words():
    made = parties(10, 0.2, 0.1)
    width = 61_706  # LeNet
    result = made.play(made.rows(width))
    plain = 4 * width
    assert all(
        sent + received < 1.05 * plain
        for sent, received in zip(result.sent.values(), result.received.values(), strict=True)
    )
    assert min(result.sent.values()) > plain


def test_bytes_are_those_of_the_messages():
    # three clients, whole graph: an advertisement, two parcels, a row, two codes and three shares go up
    made = parties(3, 0.34)
    result = made.play(made.rows(5))
    assert set(result.sent.values()) == {(4 + 160) + 2 * (4 + 180) + 5 * 4 + 2 * (4 + 32) + 3 * (4 + 66)}
    assert set(result.received.values()) == {2 * (4 + 160) + 2 * (4 + 180) + 2 * (4 + 32) + 3 * 4}


def test_a_client_that_refuses_is_gone_and_its_reason_is_known():
    made = parties(6, 0.34)
    clients = made.clients()
    clients[12]._roster = {number: key for number, key in made.roster.items() if number != 13}
    server, rows = made.server(), made.rows()
    result = play_sum(server, list(clients.values()), rows)
    assert result.survivors == [10, 11, 13, 14, 15]
    assert (result.total == sum(rows[number] for number in result.survivors)).all()
    assert server.refused == {12: "client 13 is not on the roster that the operator signed."}
