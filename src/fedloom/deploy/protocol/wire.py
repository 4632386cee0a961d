"""What travels between server and site: a small checked header in JSON, and tensors as safetensors.

``pack`` and ``unpack`` are the only way in and out. ``unpack`` trusts nothing: sizes before contents, names, types and
shapes before numbers, and whatever is wrong becomes ``Refused``, with a reason that can be counted and shown. The
index of the tensors (safetensors' own header) is checked here, more strictly than that library does: it would take
float8 and complex numbers, five thousand axes, names of any length, and booleans that are neither true nor false.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from safetensors.torch import save
from torch import Tensor

from fedloom.core.errors import FedloomError

MAX_HEADER = 1 << 16
"""Bytes of a header, at most."""
MAX_TENSORS = 1024
"""Tensors in one message, at most."""
MAX_INDEX = 1 << 20
"""Bytes of the tensors' index, at most."""
_LENGTH, _INDEX_LENGTH = struct.Struct("<I"), struct.Struct("<Q")
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""What numbers may be, by safetensors' names."""

Name = Annotated[str, Field(max_length=200)]
Whole = Annotated[int, Field(ge=0, le=1 << 53)]
Kind = Literal["hello", "update", "ask", "score", "global", "model", "judge", "finish"]


class Refused(FedloomError):  # noqa: N818
    """Something that arrived and is not taken; the text says why."""


class Header(BaseModel):
    """What both ways have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    run: Name
    """The run this belongs to."""
    ticket: Name
    """Names one request; its answer repeats it, so that no other answer can pass for it."""


class Request(Header):
    """Down. ``state`` is the ticket of the work whose kept state this request builds on ("" for none yet), and ``base``
    that of the last finished round, to which a round that is tried again goes back."""

    kind: Kind
    round: Whole
    turn: Whole = 0
    measure: bool = False
    base: Name = ""
    state: Name = ""


class Answer(Header):
    """Up. An ``error`` says in words why there is no result."""

    client: Whole
    round: Whole
    error: Annotated[str, Field(max_length=2000)] = ""
    keeps: bool = False
    """Whether the site keeps a state under this ticket."""
    lost: bool = False
    """Whether the state that the request builds on is no longer there."""
    about: dict[Name, Name | Whole] = Field(default_factory=dict, max_length=64)
    """What a site says of itself when it is greeted: versions, and how many samples it has in each part."""


HeaderT = TypeVar("HeaderT", bound=Header)


class _Entry(BaseModel):
    """Where a tensor lies in the bytes behind the index."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    dtype: Literal["F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"]
    shape: list[Whole] = Field(max_length=16)
    data_offsets: tuple[Whole, Whole]


_INDEX: TypeAdapter[dict[Name, _Entry]] = TypeAdapter(dict[Name, _Entry], config=ConfigDict(strict=True))


def pack(header: Header, tensors: Mapping[str, Tensor]) -> bytes:
    """A message as bytes."""
    text = header.model_dump_json().encode()
    if len(text) > MAX_HEADER:
        raise FedloomError(f"a message's header has {len(text):,} bytes, and {MAX_HEADER:,} are allowed: say less.")
    own = {  # a copy each: safetensors refuses tensors that share memory
        name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    return b"".join((_LENGTH.pack(len(text)), text, save(own)))


def unpack(data: bytes, kind: type[HeaderT], limit: int) -> tuple[HeaderT, dict[str, Tensor]]:
    """A message from bytes, or ``Refused``."""
    if len(data) > limit:
        raise Refused(f"the message has {len(data):,} bytes, and {limit:,} are allowed")
    if len(data) < _LENGTH.size:
        raise Refused(f"the message has {len(data)} bytes and no header")
    (size,) = _LENGTH.unpack_from(data)
    if size > MAX_HEADER or size > len(data) - _LENGTH.size:
        raise Refused(f"the header says it has {size:,} bytes, which cannot be")
    body = _LENGTH.size + size
    header = _header(data[_LENGTH.size : body], kind)
    return header, _tensors(memoryview(data)[body:])


def _header(text: bytes, kind: type[HeaderT]) -> HeaderT:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise Refused(f"the header is wrong {_where(error)}") from None


def _tensors(data: memoryview) -> dict[str, Tensor]:
    (size,) = _INDEX_LENGTH.unpack_from(data) if len(data) >= _INDEX_LENGTH.size else (0,)
    if not 0 < size <= min(len(data) - _INDEX_LENGTH.size, MAX_INDEX):
        raise Refused("the tensors have no readable index")
    start = _INDEX_LENGTH.size + size
    try:
        index = _INDEX.validate_json(bytes(data[_INDEX_LENGTH.size : start]))
    except ValidationError as error:
        raise Refused(f"the tensors' index is wrong {_where(error)}") from None
    if len(index) > MAX_TENSORS:
        raise Refused(f"the message has {len(index):,} tensors, and {MAX_TENSORS:,} are allowed")
    numbers, end = data[start:], 0
    for name, entry in sorted(index.items(), key=lambda item: item[1].data_offsets):
        _check(name, entry, end)
        end = entry.data_offsets[1]
    if end != len(numbers):
        raise Refused(f"the tensors have {end:,} bytes and {len(numbers):,} came")
    return {name: _tensor(numbers, entry) for name, entry in index.items()}


def _check(name: str, entry: _Entry, start: int) -> None:
    """A tensor that begins where the one before it ends, and is as long as its shape says."""
    if not name or not name.isprintable():
        raise Refused("a tensor has no readable name")
    if math.prod(max(size, 1) for size in entry.shape) > 1 << 53:  # also of an empty tensor, whose strides overflow
        raise Refused("a tensor has a shape that cannot be")
    begin, end = entry.data_offsets
    if begin != start or end - begin != math.prod(entry.shape) * _DTYPES[entry.dtype].itemsize:
        raise Refused("a tensor lies elsewhere than its shape says")


def _tensor(numbers: memoryview, entry: _Entry) -> Tensor:
    begin, end = entry.data_offsets
    dtype = _DTYPES[entry.dtype]
    if begin == end:
        return torch.empty(entry.shape, dtype=dtype)
    own = bytearray(numbers[begin:end])
    if dtype == torch.bool and own.strip(b"\0\1"):
        raise Refused("a tensor has booleans that are neither true nor false")
    return torch.frombuffer(own, dtype=dtype).reshape(entry.shape)


def _where(error: ValidationError) -> str:
    first: Any = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"at '{shown(place, 60)}' ({shown(first['msg'], 140)})"


def shown(text: str, most: int) -> str:
    """A text from elsewhere as one short line that is safe in logs and on terminals."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text[:most])
    return plain + "..." * (len(text) > most)


def finite(tensor: Tensor) -> bool:
    """Whether a tensor has neither NaN nor infinity."""
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())
