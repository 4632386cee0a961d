"""Reading a flow from a file of any format that Fedloom knows: the content says which one it is.

Reading gives the flow as the file has it, valid or not, so that a broken flow can be shown: `rules.validate` checks the
rules. A file that holds no flow at all is refused with the position of the first fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import Flow, brief
from fedloom.tasks.flows.formats.bpmn import from_bpmn
from fedloom.tasks.flows.formats.flow_json import FORMAT, from_json
from fedloom.tasks.flows.formats.json_values import parse_json
from fedloom.tasks.flows.formats.n8n import from_n8n, is_n8n
from fedloom.tasks.flows.formats.start_and_ends import Reading
from fedloom.tasks.flows.rules import DIALECTS, Dialect

LARGEST = 16 << 20
"""The most bytes that a file of one flow may have; real ones have a few thousand."""


def read(path: str | Path, dialect: Dialect | None = None) -> Reading:
    """Read a flow from a file of Fedloom's JSON format, an n8n export or a BPMN 2.0 file.

    Args:
        dialect: the dialect that the file must have (by name); it may be a user-defined one.
    """
    return _read(Path(path), dialect, draft=False)


def read_draft(path: str | Path, dialect: Dialect | None = None) -> Reading:
    """Read a flow under construction like `read`; branches without an end stay open (see `rules.validate_draft`)."""
    return _read(Path(path), dialect, draft=True)


def read_flow(path: str | Path, dialect: Dialect | None = None) -> tuple[Flow, Dialect]:
    """Read a flow and its dialect from a file; `read` also says what was dropped and merged.

    Args:
        dialect: The dialect that the file must have (by name); it may be a user-defined one.
    """
    reading = read(path, dialect)
    return reading.flow, reading.dialect


def _read(path: Path, dialect: Dialect | None, draft: bool) -> Reading:
    known = {**DIALECTS, **({} if dialect is None else {dialect.name: dialect})}
    reading = from_bytes(_read_bytes(path), str(path), known, draft)
    if dialect is None:
        return reading
    if reading.dialect.name != dialect.name:
        raise FedloomError(f"{path} is a flow of the dialect '{reading.dialect.name}', not of '{dialect.name}'.")
    return Reading(reading.flow, dialect, reading.self_loops, reading.merged)


def from_bytes(data: bytes, file: str, dialects: Mapping[str, Dialect] = DIALECTS, draft: bool = False) -> Reading:
    """The flow in the bytes of a file of any format; ``file`` is its name in errors."""
    if looks_like_xml(data):
        return from_bpmn(data, file, draft)
    value = parse_json(data, file)
    if isinstance(value.value, dict) and "format" in value.value:
        named = value.field("format")
        if named.text() != FORMAT:
            raise named.error(f"Fedloom knows no flow format '{brief(named.text())}': its own is '{FORMAT}'")
        return from_json(value, dialects)
    if is_n8n(value):
        return from_n8n(value, draft)
    raise FedloomError(
        f'{file} is JSON, but not a flow: it has neither "format": "{FORMAT}" nor the nodes and connections of an n8n '
        "workflow."
    )


def looks_like_xml(data: bytes) -> bool:
    """Whether a file begins with an angle bracket, in UTF-8 or UTF-16."""
    start = data[:64].removeprefix(b"\xef\xbb\xbf").lstrip()
    return start[:1] == b"<" or start[:4] in (b"\xff\xfe<\x00", b"\xfe\xff\x00<")


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except IsADirectoryError:
        raise FedloomError(f"{path} is a folder: name one file.") from None
    except FileNotFoundError:
        raise FedloomError(f"there is no file {path}.") from None
    except (OSError, ValueError) as error:
        raise FedloomError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    if len(data) > LARGEST:
        raise FedloomError(f"{path} has more than {LARGEST >> 20} MB, which is too much for one flow.")
    return data
