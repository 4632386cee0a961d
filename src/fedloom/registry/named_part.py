"""A part that a config names: ``{"name": "random", "fraction": 0.1}`` and back.

A ``PartKind`` has the classes of one kind by name, and the base class of user-defined ones. ``config/named_parts.py``
has the parts of a run, ``metrics/registry.py`` the metrics of a task.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any

from fedloom.core.errors import FedloomError, unknown
from fedloom.registry.names import canonical_name
from fedloom.registry.signatures import check_signatures
from fedloom.registry.user_classes import user_class, user_class_name
from fedloom.registry.validation import validate


@dataclass(frozen=True)
class PartKind:
    """A kind of part that a config names.

    Args:
        key: The key of the config.
        known: The classes of this kind by name.
        base: The base class of user-defined parts.
        what: The kind of part, as error messages call it.
        default: The name if the config has none; None if there is then no such part.
        aliases: Other spellings of names.
        is_list: Whether the config has a list of such parts.
    """

    key: str
    known: Mapping[str, Any]
    base: type
    what: str
    default: str | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    is_list: bool = False

    def make(self, value: Any, where: str = "the configuration") -> Any:
        """The part, or the list of parts, that a value of the config names; ``value`` is None where it has none."""
        if not self.is_list:
            if value is None:
                return None if self.default is None else self.known[self.default]()
            return make_part(value, self)
        value = [] if value is None else value
        if not isinstance(value, list | tuple):
            raise FedloomError(
                f"{self.key}={value!r} in {where}: give a list, for instance [{{name='{next(iter(self.known))}'}}]."
            )
        return [make_part(one, self) for one in value]

    def plain(self, part: Any) -> Any:
        """The plain values that make the part, or the list of parts, again; None if there is none."""
        if self.is_list:
            return [part_values(one, self.known) for one in part]
        return None if part is None else part_values(part, self.known)


def make_part(value: Any, kind: PartKind) -> Any:
    """A part of a run from its name, from ``{"name": ..., settings}``, from its class, or from itself.

    Args:
        value: The part, its class, its name, or its name with settings.
        kind: What kind of part it is.
    """
    known, base, what = kind.known, kind.base, kind.what
    if not isinstance(value, (str, Mapping)):
        part = value() if isinstance(value, type) and issubclass(value, base) else value
        if not isinstance(part, base):
            raise FedloomError(
                f"{value!r} is not {_article(what)}: give one of {', '.join(known)}, or an object of a subclass of "
                f"{base.__name__}."
            )
        check_signatures(part, base)
        return part
    settings = {"name": value} if isinstance(value, str) else dict(value)
    name = settings.pop("name", kind.default)
    if not isinstance(name, str):
        raise FedloomError(f"{_article(what)} needs a name: one of {', '.join(known)}.")
    if ":" in name:
        own: type = user_class(name, base, what)
        _check_settings(own, settings, what)
        made = validate(own, settings, f"{what} {name}")
        check_signatures(made, base)
        return made
    registered = canonical_name(name, known, kind.aliases)
    if registered not in known:
        raise unknown(what, name, known)
    return validate(known[registered], settings, f"{what} {registered}")


def _article(what: str) -> str:
    return f"{'an' if what[0] in 'aeiou' else 'a'} {what}"


def _check_settings(kind: type, settings: Mapping[str, Any], what: str) -> None:
    """Refuse settings that are not fields of a user-defined class."""
    if not is_dataclass(kind):
        raise FedloomError(f"{what} '{kind.__name__}': write @dataclass above the class; its fields are its settings.")
    names = [item.name for item in fields(kind)]
    strange = [key for key in settings if key not in names]
    if strange:
        raise unknown(f"key in {what} {kind.__name__}:", strange[0], names)


def is_named(kind: Any, known: Mapping[str, Any]) -> bool:
    """Whether a config can name a class or a function: it is registered, or found by its module or file."""
    if kind in known.values():
        return True
    module, name = getattr(kind, "__module__", "__main__"), getattr(kind, "__qualname__", "")
    return module != "__main__" and getattr(sys.modules.get(module), name, None) is kind


def part_values(part: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """The ``{"name": ..., settings}`` that rebuild a part."""
    kind = type(part)
    name = next((name for name, known_kind in known.items() if known_kind is kind), user_class_name(kind))
    return {"name": name, **without_none(hyperparameters(part))}


def hyperparameters(part: Any) -> dict[str, Any]:
    """The constructor arguments of a method, a selector, a stage or local work, as plain values."""
    return asdict(part) if is_dataclass(part) and not isinstance(part, type) else {}


def without_none(value: Any) -> Any:
    """The values without keys that are None: TOML has no null, and a missing key means the same."""
    if isinstance(value, Mapping):
        return {k: without_none(v) for k, v in value.items() if v is not None}
    return value
