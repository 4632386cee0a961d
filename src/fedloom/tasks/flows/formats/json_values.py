"""JSON text to values that know their position in the file, so that an error can name it.

An error is one sentence: broken text with its line and column, a wrong type or a missing field with its path
(``nodes[3].kind``). Repeated keys, NaN, very long numbers and deeply nested brackets are refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import brief

MOST_DIGITS = 300
"""The most digits of a whole number."""

_TYPES = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A value inside a JSON file and the path to it; asked for a wrong type, it raises an error that names both."""

    value: Any
    file: str
    path: str = ""

    def error(self, what: str) -> FedloomError:
        """The error that something is wrong with this value."""
        return FedloomError(f"{self.file}, at {self.path or 'the top'}: {what}.")

    def text(self) -> str:
        """This text."""
        text: str = self._expect(str)
        if text.isascii():
            return text
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = brief(text.encode("utf-8", "replace").decode())
            raise self.error(f"'{shown}' is not valid Unicode text") from None
        return text

    def items(self) -> list[JsonValue]:
        """The items of this list."""
        return [JsonValue(value, self.file, f"{self.path}[{i}]") for i, value in enumerate(self._expect(list))]

    def fields(self) -> dict[str, JsonValue]:
        """The fields of this object."""
        return {key: JsonValue(value, self.file, self._path_of(key)) for key, value in self._expect(dict).items()}

    def fields_by_text(self) -> dict[str, JsonValue]:
        """The fields of this object, whose keys must be valid Unicode: they become part of the flow."""
        return {JsonValue(key, self.file, self.path).text(): field for key, field in self.fields().items()}

    def field(self, name: str) -> JsonValue:
        """A field that must be there."""
        fields = self._expect(dict)
        if name not in fields:
            raise self.error(f"the field '{name}' is missing")
        return JsonValue(fields[name], self.file, self._path_of(name))

    def texts(self) -> dict[str, str]:
        """The texts in this object."""
        return {key: field.text() for key, field in self.fields_by_text().items()}

    def _path_of(self, key: str) -> str:
        step = brief(key, 40)
        step = step if step.isidentifier() else f'"{step}"'
        return f"{self.path}.{step}" if self.path else step

    def _expect(self, kind: type) -> Any:
        if not isinstance(self.value, kind):
            raise self.error(f"expected {_TYPES[kind]}, got {_TYPES.get(type(self.value), 'a number')}")
        return self.value


def parse_json(data: bytes, file: str) -> JsonValue:
    """The value that a JSON text holds; ``file`` is its name in errors."""
    try:
        value = json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        what = f"{error.msg[0].lower()}{error.msg[1:]}"
        raise FedloomError(f"{file}, line {error.lineno}, column {error.colno}: not valid JSON: {what}.") from None
    except UnicodeDecodeError as error:
        raise FedloomError(f"{file}: byte {error.start:,} is not UTF-8 text; JSON must be UTF-8.") from None
    except RecursionError:
        raise FedloomError(f"{file}: its brackets are nested too deeply for a flow.") from None
    except ValueError as error:
        raise FedloomError(f"{file}: {error}") from None
    return JsonValue(value, file)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key '{brief(twice)}' occurs twice in one object.")
    return fields


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number has {len(text):,} digits; at most {MOST_DIGITS} are allowed.")
    return int(text)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON.")
