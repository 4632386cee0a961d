"""JSON text to plain values, each of which knows where in the file it stands.

Whatever is wrong is said in one sentence: broken text with its line and column, a wrong type or a missing field with
the path that leads to it (``nodes[3].kind``). Keys that come twice, numbers that are none and towers of brackets are
refused, for nothing that a person wrote has them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import brief

LONGEST = 300
"""The most digits of a whole number; longer ones are no longer numbers to a computer either."""

_CALLED = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "nothing (null)"}


@dataclass(frozen=True, slots=True)
class Place:
    """A value inside a file and the path to it; asked for the wrong type, it says where and what stands there."""

    value: Any
    file: str
    path: str = ""

    def wrong(self, what: str) -> FedloomError:
        """The error of this place."""
        return FedloomError(f"{self.file}, at {self.path or 'the top'}: {what}.")

    def text(self) -> str:
        """The text that stands here."""
        text: str = self._is(str)
        if text.isascii():
            return text
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self.wrong(f"'{brief(text.encode('utf-8', 'replace').decode())}' is no valid Unicode text") from None
        return text

    def items(self) -> list[Place]:
        """The list that stands here, place by place."""
        return [Place(value, self.file, f"{self.path}[{i}]") for i, value in enumerate(self._is(list))]

    def fields(self) -> dict[str, Place]:
        """The object that stands here, place by place."""
        return {key: Place(value, self.file, self._below(key)) for key, value in self._is(dict).items()}

    def named(self) -> dict[str, Place]:
        """The same, where the keys become part of the flow."""
        return {Place(key, self.file, self.path).text(): place for key, place in self.fields().items()}

    def field(self, name: str) -> Place:
        """A field that must be there."""
        found = self._is(dict)
        if name not in found:
            raise self.wrong(f"the field '{name}' is missing")
        return Place(found[name], self.file, self._below(name))

    def texts(self) -> dict[str, str]:
        """The object of texts that stands here."""
        return {key: place.text() for key, place in self.named().items()}

    def _below(self, key: str) -> str:
        step = brief(key, 40)
        step = step if step.isidentifier() else f'"{step}"'
        return f"{self.path}.{step}" if self.path else step

    def _is(self, kind: type) -> Any:
        if not isinstance(self.value, kind):
            found = _CALLED.get(type(self.value), "a number")
            raise self.wrong(f"{_CALLED[kind]} must stand here and not {found}")
        return self.value


def parse(data: bytes, file: str) -> Place:
    """The value that a JSON text holds, or the sentence with the position at which it breaks."""
    try:
        value = json.loads(
            data.decode("utf-8-sig"), object_pairs_hook=_once, parse_constant=_no_number, parse_int=_whole
        )
    except json.JSONDecodeError as error:
        what = f"{error.msg[0].lower()}{error.msg[1:]}"
        raise FedloomError(
            f"{file}, line {error.lineno}, column {error.colno}: {what}: this is no valid JSON."
        ) from None
    except UnicodeDecodeError as error:
        raise FedloomError(f"{file}: byte {error.start:,} is not UTF-8 text, and JSON is.") from None
    except RecursionError:
        raise FedloomError(f"{file}: its brackets are nested too deeply for a flow.") from None
    except ValueError as error:
        raise FedloomError(f"{file}: {error}") from None
    return Place(value, file)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key '{brief(twice)}' comes twice in one object.")
    return found


def _whole(text: str) -> int:
    if len(text) > LONGEST:
        raise ValueError(f"a number has {len(text):,} digits.")
    return int(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON.")
