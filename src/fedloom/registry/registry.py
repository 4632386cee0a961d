"""The parts of one kind by name: built-in ones, those of installed packages, and classes in users' files.

A ``Registry`` is a mapping from names to parts. An entry is imported when it is first used, so a run imports the method
that it has and none of the others. ``registry/kinds.py`` has one registry for each kind, ``registry/builtin.py`` their
tables. A name is read in any spelling (``LG-FedAvg``, ``lg_fedavg``), and ``my_file.py:Mine`` or
``package.module:Mine`` is a class of the user's own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from fedloom.core.errors import FedloomError, unknown
from fedloom.registry.packages import PackagePart, load_object, package_parts, warn_of_clashes
from fedloom.registry.plain_values import hyperparameters, without_none
from fedloom.registry.signatures import check_signatures
from fedloom.registry.spec import split_spec, split_specs
from fedloom.registry.user_classes import user_class, user_class_name
from fedloom.registry.validation import validate

T = TypeVar("T")
NOTHING: Mapping[str, str] = MappingProxyType({})


class Registry(Mapping[str, T]):
    """The parts of one kind.

    Args:
        what: The kind of part, as error messages call one of it.
        group: The group of entry points in which packages offer such parts.
        table: The built-in parts: ``package.module:object`` by name.
        base: The base class of such parts, ``package.module:Class``; None where they are not classes.
        key: The key of a run's config that names such parts, where there is one.
        default: The name of the part where the config names none; None if there is then no such part.
        aliases: Other names of built-in parts, in lower case without separators.
        is_list: Whether the config has a list of such parts.
        chain: The part that several act in as one, ``package.module:Class``; None where the config has only one.
    """

    def __init__(
        self,
        what: str,
        group: str,
        table: Mapping[str, str],
        base: str | None,
        *,
        key: str = "",
        default: str | None = None,
        aliases: Mapping[str, str] = NOTHING,
        is_list: bool = False,
        chain: str | None = None,
    ) -> None:
        self.what, self.group, self.key, self.default, self.is_list = what, group, key, default, is_list
        self.aliases = aliases
        self._table, self._base, self._chain = table, base, chain
        self._spellings = {_letters(name): name for name in table}

    @property
    def base(self) -> type:
        """The base class of such parts."""
        found: type = object if self._base is None else load_object(self._base)
        return found

    def __getitem__(self, name: str) -> T:
        if name in self._table:
            found: T = load_object(self._table[name])
            return found
        part = self._packages()[name]
        offered: T = part.load(self.what)
        if self._base is not None and not (isinstance(offered, type) and issubclass(offered, self.base)):
            raise FedloomError(
                f"{self.what} '{name}' of the package {part.package} is not a subclass of {self.base.__name__}: "
                "install a version that fits, or uninstall it."
            )
        return offered

    def __iter__(self) -> Iterator[str]:
        yield from self._table
        yield from self._packages()

    def __len__(self) -> int:
        return len(self._table) + len(self._packages())

    def __contains__(self, name: object) -> bool:
        return name in self._table or name in self._packages()

    def _packages(self) -> dict[str, PackagePart]:
        """The parts of packages; a built-in one of the same name wins."""
        warn_of_clashes(self.group, tuple(self._table))
        return {name: part for name, part in package_parts(self.group).items() if name not in self._table}

    @property
    def builtin(self) -> tuple[str, ...]:
        """The names of the built-in parts."""
        return tuple(self._table)

    def package_of(self, name: str) -> str | None:
        """The name of the package that offers a part; None if it is built in."""
        return None if name in self._table else self._packages()[name].package

    def canonical(self, name: str) -> str:
        """The registered spelling of a name; case, hyphens, underscores and spaces do not matter.

        The name of a user's own class (``file.py:Class``) stays as it is, and a name that nothing has is returned in
        lower case without separators.
        """
        if ":" in name:
            return name
        letters = _letters(name)
        letters = self.aliases.get(letters, letters)
        if letters in self._spellings:
            return self._spellings[letters]
        return next((offered for offered in self._packages() if _letters(offered) == letters), letters)

    def find(self, name: str) -> T:
        """The part of a name in any spelling, or a user's own class (``file.py:Class``, ``package.module:Class``)."""
        if ":" in name and self._base is not None:
            own: Any = user_class(name, self.base, self.what)
            return own  # type: ignore[no-any-return]
        registered = self.canonical(name)
        if registered not in self:
            raise unknown(self.what, name, self)
        return self[registered]

    def name_of(self, kind: Any) -> str | None:
        """The registered name of a class or an object; None if it has none. Nothing is imported for it."""
        where = f"{getattr(kind, '__module__', '')}:{getattr(kind, '__qualname__', '')}"
        for name, entry in self._table.items():
            if entry == where:
                return name
        if where.startswith("fedloom."):
            return None
        return next((name for name, part in self._packages().items() if _is(kind, where, part.where)), None)

    def can_name(self, kind: Any) -> bool:
        """Whether a config can name a class or a function: it is registered, or found by its module or file."""
        return self.name_of(kind) is not None or is_importable(kind)

    def make(self, value: Any, where: str = "the configuration") -> Any:
        """The part, or the list of parts, that a value of the config names; ``value`` is None where it has none."""
        if not self.is_list:
            value = self.default if value is None else value
            if self._chain is not None and isinstance(value, str) and len(split_specs(value)) > 1:
                value = split_specs(value)
            if self._chain is not None and isinstance(value, list | tuple):
                return load_object(self._chain).of([self.make_one(one) for one in value])
            return None if value is None else self.make_one(value)
        value = [] if value is None else split_specs(value) or value if isinstance(value, str) else value
        if not isinstance(value, list | tuple):
            raise FedloomError(
                f"{self.key}={value!r} in {where}: give a list, for instance [{{name='{next(iter(self))}'}}]."
            )
        return [self.make_one(one) for one in value]

    def make_one(self, value: Any) -> Any:
        """A part from its name or spec (``fedprox:mu=0.1``), from ``{"name": ..., settings}``, its class, or itself."""
        if not isinstance(value, (str, Mapping)):
            return self._checked(value)
        if isinstance(value, str):
            name, settings = split_spec(value)
        else:
            settings = dict(value)
            name = settings.pop("name", self.default)
        if not isinstance(name, str):
            raise FedloomError(f"{article(self.what)} needs a name: one of {', '.join(self)}.")
        kind, called = self.find(name), self.canonical(name)
        if called in self._table:
            return validate(kind, settings, f"{self.what} {called}")
        _check_settings(kind, settings, self.what)
        made = validate(kind, settings, f"{self.what} {called}")
        check_signatures(made, self.base)
        return made

    def _checked(self, value: Any) -> Any:
        """A part that is given as an object or a class; one of another kind is refused."""
        part = value() if isinstance(value, type) and issubclass(value, self.base) else value
        if not isinstance(part, self.base):
            raise FedloomError(
                f"{value!r} is not {article(self.what)}: give one of {', '.join(self)}, or an object of a subclass of "
                f"{self.base.__name__}."
            )
        check_signatures(part, self.base)
        return part

    def plain(self, part: Any) -> Any:
        """The plain values that make the part, or the list of parts, again; None if there is none."""
        members = part if self.is_list else () if self._chain is None else part.members
        if self.is_list or len(members) > 1:
            return [self.plain_one(one) for one in members]
        return None if part is None else self.plain_one(part)

    def plain_one(self, part: Any) -> dict[str, Any]:
        """The ``{"name": ..., settings}`` that make one part again."""
        kind = type(part)
        return {"name": self.name_of(kind) or user_class_name(kind), **without_none(hyperparameters(part))}


def is_importable(kind: Any) -> bool:
    """Whether another process finds a class or a function by its module and name."""
    module, name = getattr(kind, "__module__", "__main__"), getattr(kind, "__qualname__", "")
    return module != "__main__" and getattr(sys.modules.get(module), name, None) is kind


def article(what: str) -> str:
    """A word with its article."""
    return f"{'an' if what[0] in 'aeiou' else 'a'} {what}"


def _is(kind: Any, where: str, entry: str) -> bool:
    """Whether an entry names a class: by its module, or by another one that imports it (``package:Class``)."""
    module, _, name = entry.partition(":")
    return entry == where or getattr(sys.modules.get(module), name, None) is kind


def _letters(name: str) -> str:
    """A name in lower case without separators."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def _check_settings(kind: Any, settings: Mapping[str, Any], what: str) -> None:
    """Refuse settings that are not fields of a class from elsewhere."""
    called = kind.__name__
    if not is_dataclass(kind):
        raise FedloomError(f"{what} '{called}': write @dataclass above the class; its fields are its settings.")
    names = [item.name for item in fields(kind)]
    strange = [key for key in settings if key not in names]
    if strange:
        raise unknown(f"key in {what} {called}:", strange[0], names)
