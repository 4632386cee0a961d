"""Messages between server and site: a small validated header in JSON, and tensors as safetensors.

``pack`` and ``unpack`` are the only way in and out. ``unpack`` trusts nothing: it checks sizes before contents, then
names, types and shapes, then numbers. Whatever is wrong raises ``RejectedMessage`` with a short reason. The index of
the tensors (safetensors' own header) is checked here, more strictly than by that library, which accepts float8 and
complex numbers, five thousand axes, names of any length, and booleans that are neither true nor false.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from safetensors.torch import save
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.deploy.protocol.printable import printable_line
from fedloom.files.formats import MESSAGE

MAX_HEADER = 1 << 16
"""Largest header, in bytes."""
MAX_TENSORS = 1024
"""Most tensors in one message."""
MAX_INDEX = 1 << 20
"""Largest index of tensors, in bytes."""
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
"""Accepted types of numbers, by safetensors' names."""

Name = Annotated[str, Field(max_length=200)]
Whole = Annotated[int, Field(ge=0, le=1 << 53)]
REFUSED = "refused by the site's policy: "
"""How the error of an answer begins where the site may not, or does not want to, do what is asked."""
RequestKind = Literal["hello", "update", "ask", "score", "global", "model", "judge", "finish", "sum"]


class RejectedMessage(FedloomError):  # noqa: N818
    """A received message that is not accepted; the text gives the reason."""


class NotFinite(RejectedMessage):
    """One that holds what is no number: whoever sent it is hostile or broken."""


class Header(BaseModel):
    """The part that requests and answers share."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Annotated[int, Field(ge=1, le=MESSAGE.version, exclude=True)] = MESSAGE.version
    """The format's number. It is not written while it is 1: a site of any version can then say which one it runs."""
    run: Name
    """The run that the message belongs to: the digest of its plan, and behind a dash what tells it from other runs of
    the same plan (``fedloom deploy run --new``)."""
    ticket: Name
    """Identifies one request. Its answer repeats the ticket, so that no other answer can take its place."""


class SiteRequest(Header):
    """From the server to a site.

    ``state`` is the ticket of the work whose client state this request builds on ("" for none). ``base`` is that of the
    last finished round; a round that is repeated starts from it. ``limit`` is the most bytes of an answer that the
    server accepts; a greeting does not have it, so that a site of any version can read it and say its own.
    """

    kind: RequestKind
    round: Whole
    turn: Whole = 0
    measure: bool = False
    base: Name = ""
    state: Name = ""
    limit: Whole | None = None


class SiteAnswer(Header):
    """From a site to the server. ``error`` says why there is no result."""

    client: Whole
    round: Whole
    error: Annotated[str, Field(max_length=2000)] = ""
    keeps: bool = False
    """Whether the site stored a client state under this ticket."""
    lost: bool = False
    """Whether the client state that the request builds on is missing."""
    spent: bool = False
    """Whether the site's privacy budget does not allow what was asked, now or later."""
    about: dict[Name, Name | Whole] = Field(default_factory=dict, max_length=64)
    """A site's answer to the greeting: its versions and the number of samples in each part."""


HeaderT = TypeVar("HeaderT", bound=Header)


class _Entry(BaseModel):
    """The position of a tensor in the bytes behind the index."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    dtype: Literal["F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"]
    shape: list[Whole] = Field(max_length=16)
    data_offsets: tuple[Whole, Whole]


_INDEX: TypeAdapter[dict[Name, _Entry]] = TypeAdapter(dict[Name, _Entry], config=ConfigDict(strict=True))


def check_size(tensors: Mapping[str, Tensor], limit: int | None) -> None:
    """Raise an error if an answer is larger than the server accepts: it would be carried there for nothing.

    Args:
        tensors: The tensors of the answer.
        limit: The most bytes; None if the server did not say.
    """
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    if limit is not None and size > limit:
        raise FedloomError(
            f"its answer has {size:,} bytes and is not sent, since the server accepts {limit:,} (max_megabytes in "
            "deploy.toml)"
        )


def pack(header: Header, tensors: Mapping[str, Tensor]) -> bytes:
    """A message as bytes.

    Args:
        header: A ``SiteRequest`` or a ``SiteAnswer``.
    """
    text = header.model_dump_json(exclude_none=True).encode()
    if len(text) > MAX_HEADER:
        raise FedloomError(f"a message's header has {len(text):,} bytes, and at most {MAX_HEADER:,} are allowed.")
    own = {  # a copy each: safetensors refuses tensors that share memory
        name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    return b"".join((_LENGTH.pack(len(text)), text, save(own)))


def unpack(data: bytes, kind: type[HeaderT], limit: int) -> tuple[HeaderT, dict[str, Tensor]]:
    """The header and the tensors of a message.

    Args:
        data: The bytes that arrived.
        kind: The expected class of the header.
        limit: The largest accepted number of bytes.

    Raises:
        RejectedMessage: The bytes are not a valid message.
    """
    if len(data) > limit:
        raise RejectedMessage(f"the message has {len(data):,} bytes, and at most {limit:,} are allowed")
    if len(data) < _LENGTH.size:
        raise RejectedMessage(f"the message has only {len(data)} bytes and no header")
    (size,) = _LENGTH.unpack_from(data)
    if size > MAX_HEADER or size > len(data) - _LENGTH.size:
        raise RejectedMessage(f"the header claims an impossible length of {size:,} bytes")
    body = _LENGTH.size + size
    header = _header(data[_LENGTH.size : body], kind)
    return header, _tensors(memoryview(data)[body:])


def _header(text: bytes, kind: type[HeaderT]) -> HeaderT:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        _refuse_newer(text)
        raise RejectedMessage(f"the header is invalid {_error_place(error)}") from None


def _refuse_newer(text: bytes) -> None:
    """Say of a header that cannot be read that a newer version wrote it, if that is so."""
    with contextlib.suppress(ValueError, RecursionError):
        header = json.loads(text)
        if isinstance(header, dict) and type(header.get("format")) is int:
            try:
                MESSAGE.check(header["format"], "the message")
            except FedloomError as newer:
                raise RejectedMessage(str(newer)) from None


def _tensors(data: memoryview) -> dict[str, Tensor]:
    (size,) = _INDEX_LENGTH.unpack_from(data) if len(data) >= _INDEX_LENGTH.size else (0,)
    if not 0 < size <= min(len(data) - _INDEX_LENGTH.size, MAX_INDEX):
        raise RejectedMessage("the index of the tensors cannot be read")
    start = _INDEX_LENGTH.size + size
    try:
        index = _INDEX.validate_json(bytes(data[_INDEX_LENGTH.size : start]))
    except ValidationError as error:
        raise RejectedMessage(f"the index of the tensors is invalid {_error_place(error)}") from None
    if len(index) > MAX_TENSORS:
        raise RejectedMessage(f"the message has {len(index):,} tensors, and at most {MAX_TENSORS:,} are allowed")
    numbers, end = data[start:], 0
    for name, entry in sorted(index.items(), key=lambda item: item[1].data_offsets):
        _check_entry(name, entry, end)
        end = entry.data_offsets[1]
    if end != len(numbers):
        raise RejectedMessage(f"the index describes {end:,} bytes of tensors, and {len(numbers):,} arrived")
    return {name: _tensor(numbers, entry) for name, entry in index.items()}


def _check_entry(name: str, entry: _Entry, start: int) -> None:
    """Check that a tensor begins where the previous one ends and has the length of its shape."""
    if not name or not name.isprintable():
        raise RejectedMessage("the name of a tensor is empty or not printable")
    if math.prod(max(size, 1) for size in entry.shape) > 1 << 53:  # also of an empty tensor, whose strides overflow
        raise RejectedMessage("the shape of a tensor is too large")
    begin, end = entry.data_offsets
    if begin != start or end - begin != math.prod(entry.shape) * _DTYPES[entry.dtype].itemsize:
        raise RejectedMessage("the offsets of a tensor do not match its shape")


def _tensor(numbers: memoryview, entry: _Entry) -> Tensor:
    begin, end = entry.data_offsets
    dtype = _DTYPES[entry.dtype]
    if begin == end:
        return torch.empty(entry.shape, dtype=dtype)
    own = bytearray(numbers[begin:end])
    if dtype == torch.bool and own.strip(b"\0\1"):
        raise RejectedMessage("a tensor has booleans that are neither true nor false")
    return torch.frombuffer(own, dtype=dtype).reshape(entry.shape)


def _error_place(error: ValidationError) -> str:
    first: Any = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"at '{printable_line(place, 60)}' ({printable_line(first['msg'], 140)})"


def is_finite(tensor: Tensor) -> bool:
    """Whether a tensor has neither NaN nor infinity."""
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())
