"""What arrives is bytes: good ones come back as they went, and bad ones are refused, whatever they are."""

from __future__ import annotations

import json
import pickle
import struct
import sys
import time

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load

from fedloom.deploy.protocol import wire
from fedloom.deploy.protocol.wire import RejectedMessage, SiteAnswer, SiteRequest, pack, unpack

LIMIT = 1 << 20
ANSWER = SiteAnswer(run="run", ticket="ticket", client=1, round=2, about={"train": 30, "fedloom": "0.3.0"})
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]  # fmt: skip # noqa: E501
GOOD = pack(
    ANSWER,
    {"reply/row": torch.arange(6.0).view(1, 6), "steps": torch.tensor([3]), "yes": torch.tensor([True, False])},
)

names = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=40)
shapes = st.lists(st.integers(0, 4), max_size=4)


@st.composite
def tensors(draw):
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(shapes)
    numbers = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))
    return numbers.to(dtype)


def quickly(examples: int, **more: object):
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, **more)  # type: ignore[arg-type] # fmt: skip # noqa: E501


@quickly(80)
@given(st.dictionaries(names, tensors(), max_size=5))
def test_what_goes_out_comes_in(sent):
    header, came = unpack(pack(ANSWER, sent), SiteAnswer, LIMIT)
    assert header == ANSWER
    assert came.keys() == sent.keys()
    for name, tensor in sent.items():
        assert (came[name].dtype, came[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(came[name], tensor)


@quickly(30)
@given(st.dictionaries(names, tensors(), min_size=1, max_size=5))
def test_the_tensors_are_safetensors_as_the_library_reads_them(sent):
    data = pack(ANSWER, sent)
    read = load(data[4 + len(ANSWER.model_dump_json()) :])
    came = unpack(data, SiteAnswer, LIMIT)[1]
    assert read.keys() == came.keys()
    assert all(torch.equal(read[name], came[name]) for name in read)


@quickly(50)
@given(st.text(max_size=200), st.integers(0, 1 << 53), st.integers(0, 1 << 53), st.text(max_size=2000))
@pytest.mark.slow
def test_headers_come_back_as_they_went(text, client, number, error):
    answer = SiteAnswer(run=text, ticket=text, client=client, round=number, error=error)
    request = SiteRequest(run=text, ticket=text, kind="update", round=number, turn=client, state=text)
    for header in (answer, request):
        assert unpack(pack(header, {}), type(header), LIMIT)[0] == header


def test_tensors_that_share_memory_or_lie_across_it_travel_too():
    table = torch.arange(12.0).view(3, 4)
    sent = {"whole": table, "again": table, "across": table.t(), "part": table[1:, :2], "wide": table[0].expand(5, 4)}
    came = unpack(pack(ANSWER, sent), SiteAnswer, LIMIT)[1]
    assert all(torch.equal(came[name], sent[name]) for name in sent)


def test_what_came_in_is_ones_own_to_change():
    data = pack(ANSWER, {"row": torch.zeros(3)})
    came = unpack(data, SiteAnswer, LIMIT)[1]
    came["row"] += 1
    assert torch.equal(unpack(data, SiteAnswer, LIMIT)[1]["row"], torch.zeros(3))


# -- what is wrong


def check_accepts_or_refuses(data: bytes, kind: type[wire.Header] = SiteAnswer) -> None:
    """Bytes may be a message or be refused; nothing else may happen, and what is taken can be reckoned with."""
    try:
        _, came = unpack(data, kind, LIMIT)
    except RejectedMessage as why:
        line = str(why)
        assert len(line) < 400  # for a log, whatever was sent
        assert line.isprintable()
        return
    for tensor in came.values():
        wire.is_finite(tensor)
        tensor.double().sum()


def with_index(index: object, numbers: bytes = b"", header: bytes | None = None) -> bytes:
    """A message whose index of tensors is as given."""
    text = index if isinstance(index, bytes) else json.dumps(index).encode()
    own = ANSWER.model_dump_json().encode() if header is None else header
    return struct.pack("<I", len(own)) + own + struct.pack("<Q", len(text)) + text + numbers


def entry(dtype: object, shape: object, start: object, end: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@quickly(300)
@given(st.binary(max_size=400))
def test_random_bytes_do_no_harm(data):
    check_accepts_or_refuses(data)
    check_accepts_or_refuses(data, SiteRequest)


@quickly(200)
@given(st.data())
def test_good_messages_that_were_damaged_do_no_harm(data):
    message = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(message)))
        how = data.draw(st.sampled_from(["flip", "cut", "insert", "end"]))
        if how == "flip" and place < len(message):
            message[place] ^= 1 << data.draw(st.integers(0, 7))
        elif how == "cut":
            del message[place : place + data.draw(st.integers(1, 30))]
        elif how == "insert":
            message[place:place] = data.draw(st.binary(min_size=1, max_size=30))
        else:
            del message[place:]
    check_accepts_or_refuses(bytes(message))


def test_no_message_that_is_cut_short_is_taken():
    for end in range(len(GOOD)):
        with pytest.raises(RejectedMessage):
            unpack(GOOD[:end], SiteAnswer, LIMIT)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["F32", "F64", "I64", "BOOL", "F8_E5M2", "C64", "F4", "U64", "Q7"]) | json_values,
        "shape": st.lists(st.integers(-2, 6) | st.sampled_from([1 << 31, 1 << 40, 1 << 62, 1 << 64]), max_size=5),
        "data_offsets": st.lists(st.integers(-8, 64) | st.sampled_from([1 << 40, 1 << 64]), min_size=1, max_size=3),
        "more": json_values,
    },
)


@quickly(120)
@given(st.dictionaries(st.text(max_size=8), entries | json_values, max_size=4) | json_values, st.binary(max_size=64))
@pytest.mark.slow
def test_indices_that_lie_do_no_harm(index, numbers):
    check_accepts_or_refuses(with_index(index, numbers))


@quickly(50)
@given(json_values | st.fixed_dictionaries(dict.fromkeys(("run", "ticket", "client", "round", "about"), json_values)))
def test_headers_that_lie_do_no_harm(header):
    check_accepts_or_refuses(with_index({}, header=json.dumps(header).encode()))


F = b"\0" * 4
BAD = {
    "a header of 4 GB": struct.pack("<I", (1 << 32) - 1) + b"{}",
    "no index": struct.pack("<I", 2) + b"{}",
    "an index of 2^64 bytes": GOOD[: 4 + len(ANSWER.model_dump_json())] + b"\xff" * 8,
    "800 GB": with_index({"a": entry("F32", [200_000_000_000], 0, 800_000_000_000)}, F),
    "800 GB in four bytes": with_index({"a": entry("F32", [200_000_000_000], 0, 4)}, F),
    "tensors that overlap": with_index({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 0, 4)}, F),
    "tensors that partly overlap": with_index({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 2, 6)}, F + F),
    "a hole": with_index({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 8, 12)}, F * 3),
    "larger than the end": with_index({"a": entry("F32", [2], 0, 8)}, F),
    "something behind the end": with_index({"a": entry("F32", [1], 0, 4)}, F + b"x"),
    "a negative place": with_index({"a": entry("F32", [1], -4, 0)}, F),
    "an end before its beginning": with_index({"a": entry("F32", [1], 4, 0)}, F),
    "a negative shape": with_index({"a": entry("F32", [-1], 0, 4)}, F),
    "two negative sizes": with_index({"a": entry("F32", [-1, -1], 0, 4)}, F),
    "a size that is no whole number": with_index({"a": entry("F32", [1.0], 0, 4)}, F),
    "a size that is true": with_index({"a": entry("F32", [True], 0, 4)}, F),
    "an unknown dtype": with_index({"a": entry("Q7", [1], 0, 4)}, F),
    "float8": with_index({"a": entry("F8_E5M2", [4], 0, 4)}, F),
    "complex numbers": with_index({"a": entry("C64", [1], 0, 8)}, F + F),
    "five thousand axes": with_index({"a": entry("F32", [1] * 5000, 0, 4)}, F),
    "an empty tensor whose strides overflow": with_index({"a": entry("F32", [0, 1 << 40, 1 << 40], 0, 0)}),
    "booleans of seven": with_index({"a": entry("BOOL", [1], 0, 1)}, b"\7"),
    "a name without letters": with_index({"": entry("F32", [1], 0, 4)}, F),
    "a name that colours a terminal": with_index({"\x1b[31m": entry("F32", [1], 0, 4)}, F),
    "a name without end": with_index({"a" * 9000: entry("F32", [1], 0, 4)}, F),
    "two thousand tensors": with_index({str(i): entry("F32", [0], 0, 0) for i in range(2000)}),
    "lists in lists": with_index(b"[" * 50_000),
    "tables in tables": with_index(b'{"a":' * 50_000),
    "not a number in the index": with_index(b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,Infinity]}}'),
    "a number of 5000 digits": with_index(b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b"]}}"),
    "an index in UTF-16": with_index(json.dumps({"a": entry("F32", [1], 0, 4)}).encode("utf-16"), F),
    "a round of 400 digits": with_index({}, header=b'{"run":"","ticket":"","client":0,"round":1' + b"0" * 400 + b"}"),
    "a client that is no number": with_index({}, header=b'{"run":"","ticket":"","client":NaN,"round":1}'),
    "a key nobody knows": with_index({}, header=b'{"run":"","ticket":"","client":0,"round":1,"x":' + b"[" * 90 + b"}"),
    "a header in lists in lists": with_index({}, header=b'{"run":' + b"[" * 60_000),
    "half a surrogate": with_index({}, header=b'{"run":"\\ud800","ticket":"","client":0,"round":1}'),
    "a negative client": with_index({}, header=b'{"run":"","ticket":"","client":-1,"round":1}'),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_is_refused_at_once(what):
    began = time.process_time()
    with pytest.raises(RejectedMessage) as why:
        unpack(BAD[what], SiteAnswer, LIMIT)
    assert time.process_time() - began < 1
    assert len(str(why.value)) < 400
    assert str(why.value).isprintable()


def test_of_a_name_that_is_given_twice_one_tensor_is_taken_and_it_must_fit():
    twice = (
        b'{"a":{"dtype":"F64","shape":[9],"data_offsets":[0,72]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    )
    assert torch.equal(unpack(with_index(twice, F), SiteAnswer, LIMIT)[1]["a"], torch.zeros(1))
    with pytest.raises(RejectedMessage):
        unpack(with_index(twice, F * 18), SiteAnswer, LIMIT)


def test_a_message_over_the_limit_is_refused_before_it_is_read():
    assert unpack(GOOD, SiteAnswer, len(GOOD))[0] == ANSWER
    with pytest.raises(RejectedMessage, match=f"{len(GOOD)} bytes"):
        unpack(GOOD, SiteAnswer, len(GOOD) - 1)


def test_an_answer_is_no_request():
    with pytest.raises(RejectedMessage, match="header"):
        unpack(GOOD, SiteRequest, LIMIT)


def test_a_header_that_nobody_would_take_is_not_sent():
    about = {f"{i:02}" + "😀" * 198: "😀" * 200 for i in range(64)}
    with pytest.raises(wire.FedloomError, match="are allowed"):
        pack(SiteAnswer(run="", ticket="", client=0, round=0, about=about), {})


class Trap:
    """Imports a module when it is unpickled."""

    def __reduce__(self):
        return __import__, ("this",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_refused_and_nothing_is_imported(protocol):
    sys.modules.pop("this", None)
    trap = pickle.dumps(Trap(), protocol)
    for data in (trap, with_index(trap), with_index({}, header=trap), with_index({"a": entry("U8", [9], 0, 9)}, trap)):
        with pytest.raises(RejectedMessage):
            unpack(data, SiteAnswer, LIMIT)
    taken = with_index({"a": entry("U8", [len(trap)], 0, len(trap))}, trap)
    assert bytes(unpack(taken, SiteAnswer, LIMIT)[1]["a"].tolist()) == trap  # as numbers it is only numbers
    assert "this" not in sys.modules


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_single_number_that_is_none_is_seen(dtype, value):
    tensor = torch.zeros(3, 5, dtype=dtype)
    assert wire.is_finite(tensor)
    tensor[2, 4] = value
    assert not wire.is_finite(tensor)


def test_a_message_of_a_newer_format_is_refused_as_such():
    text = json.dumps({"format": 2, "run": "r", "ticket": "t", "kind": "dance", "round": 0, "more": {}}).encode()
    with pytest.raises(RejectedMessage, match=r"written by a newer Fedloom .*format 2, this one knows 1.*: upgrade"):
        unpack(
            struct.pack("<I", len(text)) + text + pack(SiteRequest(run="", ticket="", kind="hello", round=0), {}),
            SiteRequest,
            1 << 20,
        )


def test_a_greeting_is_what_every_version_reads():
    """It has the keys of 0.5 and no other, so that a site of any version can answer which one it runs."""
    sent = pack(SiteRequest(run="r", ticket="t", kind="hello", round=0), {})
    (size,) = struct.unpack_from("<I", sent)
    assert set(json.loads(sent[4 : 4 + size])) == {"run", "ticket", "kind", "round", "turn", "measure", "base", "state"}
