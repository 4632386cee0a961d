"""Files that are generated from the code: the stub of the public names, two pages of the reference, and a table.

``make generated`` writes them; ``tests/test_generated.py`` checks that they are current.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import fedloom
from fedloom.config.schema import RunConfig
from fedloom.registry.builtin import METHODS
from fedloom.registry.setting import DeclaredSetting, base_type, declared_settings
from fedloom.registry.setting_arguments import with_usual
from fedloom.tasks.settings import TaskSection
from support.hostile_sizes import table as hostile_sizes
from support.paths import DOCS, REPOSITORY

STUB = Path(fedloom.__file__).with_name("__init__.pyi")
SETTINGS_PAGE, METHODS_PAGE = DOCS / "reference" / "settings.md", DOCS / "reference" / "methods.md"
TRUST_PAGE, BEGIN, END = DOCS / "trust.md", "<!-- measured hostile sizes -->", "<!-- end of what is measured -->"
HELPERS = ("curve_of", "align_blocks")
"""Public functions that belong to single methods."""
TAKE_SETTINGS = ("run", "compare", "sweep", "advise", "resume", "audit", "task")
"""The public functions whose arguments are declared settings."""


def stub() -> str:
    """The public names as type checkers and editors see them, in the project's format."""
    functions = {name: getattr(fedloom, name) for name in TAKE_SETTINGS}
    public = {(module, name) for name, module in fedloom._HOME.items() if name not in functions}
    imports = set[tuple[str, str]]()
    for function in functions.values():
        imports |= {found for text in _annotations(function) for found in _imports(text, *_owners(function))}
    head = '"""The public names of ``fedloom`` for type checkers and editors; ``make generated`` writes this file."""'
    lines = [head, "", *(f"from {module} import {name} as {name}" for module, name in sorted(public))]
    lines += [f"from {module} import {name}" for module, name in sorted(imports - public)]
    text = "\n".join([*lines, "", "__version__: str", "__all__: list[str]", "", *map(_definition, functions.values())])
    for command in (["check", "--fix", "--select", "I", "-q"], ["format", "-q"]):
        call = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(call, input=text, capture_output=True, text=True, check=True, cwd=REPOSITORY).stdout
    return text


def _definition(function: Callable[..., Any]) -> str:
    """A function that takes settings, with its types and its documentation."""
    parameters: list[str] = []
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        default = "" if one.default is one.empty else " = ..."
        parameters.append(f"{one.name}: {_python_type(one.name, str(one.annotation), function)}{default}")
    doc = textwrap.indent(inspect.cleandoc(function.__doc__ or ""), "    ").strip()
    result = inspect.signature(function).return_annotation
    return f'def {function.__name__}({", ".join(parameters)}) -> {result}:\n    """{doc}\n    """\n'


def _annotations(function: Callable[..., Any]) -> Iterator[str]:
    signature = inspect.signature(function)
    for one in signature.parameters.values():
        yield _python_type(one.name, str(one.annotation), function)
    yield str(signature.return_annotation)


def _python_type(name: str, text: str, function: Callable[..., Any]) -> str:
    """The type of an argument; where the config has a section, a call may also give a mapping."""
    settings = {} if function is fedloom.task else {one.name: one for one in declared_settings(RunConfig)}
    declared = None if name in function.__code__.co_varnames else settings.get(name)
    if declared is None or not is_dataclass(base_type(declared.kind)):
        return text
    return f"{text.removesuffix(' | None')} | Mapping[str, Any] | None"


def _owners(function: Callable[..., Any]) -> tuple[str, ...]:
    """The modules whose names the annotations of a function use."""
    return function.__module__, "fedloom.tasks.settings", "fedloom.config.schema", "fedloom.config.settings"


def _imports(text: str, *modules: str) -> Iterator[tuple[str, str]]:
    """Where the names of an annotation come from."""
    for node in ast.walk(ast.parse(text, mode="eval")):
        if (
            isinstance(node, ast.Name)
            and not hasattr(__builtins__, node.id)
            and node.id not in dir(__import__("builtins"))
        ):
            yield next(found for module in modules for found in _definitions(module, node.id))


def _definitions(module: str, name: str) -> Iterator[tuple[str, str]]:
    """The module from which a module has a name: another one, or itself."""
    source = Path(importlib.import_module(module).__file__ or "").read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and any((one.asname or one.name) == name for one in node.names):
            yield str(node.module), name
        made = [node.name] if isinstance(node, ast.ClassDef) else []
        made += map(ast.unparse, node.targets) if isinstance(node, ast.Assign) else []
        if name in made:
            yield module, name


def settings_page() -> str:
    """The reference of all settings: the keys of a config, the arguments of Python calls and the options."""
    run, task = declared_settings(RunConfig), declared_settings(TaskSection)
    return "\n".join(
        [
            "# Settings",
            "",
            "Every setting of a run. Its key in a config is also the argument of `fl.run`, `fl.compare`, `fl.sweep`",
            "and `fl.advise`; a key of the section `[task]` is also an argument of `fl.task`. Any key can be set with",
            "`--set`, and some have an option. This page is generated from the declarations in the code.",
            "",
            "## A run",
            "",
            *_table(run),
            "",
            "## `[task]`: data and model",
            "",
            *_table(task),
            *(line for one in run if one.name != "task" for line in _section(one)),
            "",
        ]
    )


def _table(settings: list[DeclaredSetting]) -> list[str]:
    rows = ["| key | type | default | option | |", "|---|---|---|---|---|"]
    for one in settings:
        option = f"`{one.setting.flag}`" if one.setting.flag else ""
        words = with_usual(one) + (f" It must be {one.range}." if one.range else "")
        rows.append(f"| `{one.name}` | {_shown_type(one)} | {_default(one.default)} | {option} | {words} |")
    return rows


def _section(one: DeclaredSetting) -> list[str]:
    """The settings of a section that is a class, with the words of its docstring."""
    kind = base_type(one.kind)
    if not is_dataclass(kind):
        return []
    rows = ["", f"## `[{one.name}]`", "", one.setting.help, "", "| key | default | |", "|---|---|---|"]
    for field in fields(kind):  # type: ignore[arg-type]
        words = _argument(inspect.getdoc(kind) or "", field.name)
        rows.append(f"| `{field.name}` | {_default(field.default)} | {words} |")
    return rows


def _argument(docstring: str, name: str) -> str:
    """What a docstring says about an argument."""
    lines = docstring.splitlines()
    place = next((number for number, line in enumerate(lines) if line.startswith(f"    {name}: ")), None)
    if place is None:
        return ""
    words = [lines[place].split(": ", 1)[1]]
    for line in lines[place + 1 :]:
        if not line.startswith("        "):
            break
        words.append(line.strip())
    return " ".join(words).replace("``", "`")


def _shown_type(one: DeclaredSetting) -> str:
    """A type as a config has it."""
    kind = base_type(one.kind)
    if one.setting.table or is_dataclass(kind) or kind is dict or get_origin(kind) in (dict, Mapping):
        return "table"
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    words = {int: "whole number", float: "number", bool: "true or false", str: "text", list: "list"}
    return words.get(get_origin(kind) or kind, "name or table")


def _default(value: Any) -> str:
    if value is None or value == [] or value == {}:
        return ""
    return f"`{value}`" if isinstance(value, str | int | float) else ""


def methods_page() -> str:
    """The reference of the methods, in the order of ``fedloom list methods``."""
    text = """# Methods

One class per method; its arguments are its settings. [Methods](../methods.md) compares them, with formulas and where we
differ from the papers. This page is generated from the table of methods.
"""
    for module, _, name in (entry.partition(":") for entry in METHODS.values()):
        text += f"""
## {name}

::: {module}
    options: {{members: false, show_root_heading: false, show_root_toc_entry: false}}

::: fedloom.{name}
    options: {{heading_level: 3}}
"""
    return text + "".join(f"\n::: fedloom.{name}\n" for name in HELPERS)


def trust_page() -> str:
    """The page on trust, with what robust rules make of hostile rows measured again."""
    text = TRUST_PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    return "\n".join([before + BEGIN, "", *hostile_sizes(), "", END]) + after


FILES: dict[Path, Callable[[], str]] = {
    STUB: stub,
    SETTINGS_PAGE: settings_page,
    METHODS_PAGE: methods_page,
    TRUST_PAGE: trust_page,
}


def write() -> None:
    """Write every generated file."""
    for path, text in FILES.items():
        path.write_text(text())


if __name__ == "__main__":
    write()
