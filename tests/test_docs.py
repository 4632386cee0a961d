"""The documentation is true: its code runs, its commands exist, its links lead somewhere, its tables are complete."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import shlex
import sys
import textwrap
import tomllib
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import click
import pytest
import typer
from typer.testing import CliRunner

import fedloom as fl
from fedloom.cli.app import app
from fedloom.config.resolve import resolve
from fedloom.config.schema import RunConfig
from fedloom.registry.kinds import METHODS, PARTS
from fedloom.tasks.settings import TaskSection
from support.paths import REPOSITORY
from test_imports import MAY_IMPORT

HOME = REPOSITORY
SOURCE = HOME / "src" / "fedloom"
PAGES = [
    *(HOME / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((HOME / "docs").glob("*.md")),
]
EXAMPLES = sorted((HOME / "examples").glob("*.py"))
REALLY_RUN = ("quickstart.md", "extend.md", "own-data.md", "images.md", "runbook.md")
"""Pages whose commands are run in order, in one folder, after the page's Python blocks."""


def blocks(page: Path, *languages: str) -> list[str]:
    """The fenced blocks of a page in some languages."""
    fenced = re.findall(r"^```(\w+)[^\n]*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [text for language, text in fenced if language in languages]


def commands(page: Path) -> list[str]:
    """The ``fedloom`` command lines of a page."""
    lines = "\n".join(blocks(page, "console", "sh")).replace("\\\n", " ").splitlines()
    lines = [re.split(r" (?:>|2>|&$)", line.removeprefix("$ "))[0].strip() for line in lines]
    return [line for line in lines if line.startswith("fedloom")]


def run_python(page: Path) -> None:
    """Run a page's Python blocks in order, in one namespace, in the current folder."""
    module = ModuleType("page")  # as a script is a module: what it defines is found by its name
    sys.modules["page"], names = module, module.__dict__
    for number, text in enumerate(blocks(page, "python"), 1):
        exec(compile(text, f"{page.name}, block {number}", "exec", dont_inherit=True), names)  # noqa: S102


def pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, language)]


def name(page: Path) -> str:
    return page.name


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with("python"), ids=name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page.name in REALLY_RUN], ids=name)
def test_commands_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page.name == "quickstart.md":
        patients = next(text for text in blocks(page, "python") if "patients.csv" in text)
        exec(patients.split("task =")[0], {})  # noqa: S102
    if page.name in ("images.md", "runbook.md"):
        run_python(page)
    if page.name == "own-data.md":
        runpy.run_path(str(HOME / "examples" / "hospital_stays.py"))["write_csv"](Path("stays.csv"))
    methods = [text for text in blocks(page, "python") if "@dataclass" in text or "class Wide" in text]
    Path("my_file.py").write_text("\n".join(methods))
    for line in commands(page):
        result = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=True)
        assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception!r}"


@pytest.mark.parametrize(
    ("page", "line"),
    [(p, line) for p in PAGES for line in commands(p)],
    ids=lambda v: v if isinstance(v, str) else v.name,
)
def test_commands_parse(page: Path, line: str) -> None:  # noqa: ARG001
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    _, verb, *rest = shlex.split(line)
    if verb.startswith("-"):
        assert verb in {option for parameter in group.params for option in parameter.opts} | {"--help", "-h"}
        return
    command = group.get_command(click.Context(group), verb)
    assert command is not None, f"there is no command {verb}"
    if isinstance(command, click.Group):
        verb, *rest = rest
        command = command.get_command(click.Context(command), verb)
        assert command is not None, f"there is no command {line}"
    if "--help" not in rest:
        command.make_context(verb, rest)


@pytest.mark.parametrize("line", [line for line in commands(HOME / "docs" / "cli.md") if " list " in line])
def test_listings_run(line: str) -> None:
    assert CliRunner().invoke(app, shlex.split(line)[1:]).exit_code == 0


def test_cli_page_names_every_command_and_option() -> None:
    page = (HOME / "docs" / "cli.md").read_text()
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    verbs = dict(group.commands)
    for verb, command in group.commands.items():
        if isinstance(command, click.Group):
            verbs |= {f"{verb} {below}": inside for below, inside in command.commands.items()}
    for verb, command in verbs.items():
        assert f"## fedloom {verb}" in page
        for parameter in command.params:
            for option in parameter.opts if isinstance(parameter, click.Option) else ():
                assert f"`{option}" in page or f" {option} " in page, f"{verb} {option} is not in docs/cli.md"


def test_every_command_has_the_options_that_the_table_of_options_gives_it() -> None:
    """`fedloom data` lacked `--text` and `--empty-labels`, which the table promised."""
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    table = (HOME / "docs" / "cli.md").read_text().split("## Options that several commands share")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `-")]
    assert len(rows) > 20
    for options, verbs, *_ in rows:
        for verb in verbs.split(", "):
            there = {option for parameter in group.commands[verb].params for option in parameter.opts}
            assert set(re.findall(r"--?[a-z][a-z-]*", re.sub(r"`([^ `]+)[^`]*`", r"\1", options))) <= there, verb


def test_configuration_example_is_valid_and_complete() -> None:
    (text,) = blocks(HOME / "docs" / "cli.md", "toml")
    values = tomllib.loads(text)
    config = resolve(values)
    assert set(values) == set(RunConfig.model_fields) - {"made_by"}
    assert set(values["task"]) == {field.name for field in fields(TaskSection)}
    for section in ("local", "selection", "server_optimizer"):
        assert set(values[section]) == {field.name for field in fields(getattr(config, section))}


def test_methods_page_names_every_setting() -> None:
    page = (HOME / "docs" / "methods.md").read_text()
    for method, kind in METHODS.items():
        (line,) = re.findall(rf"^\| `{method}` \|.*$", page, re.MULTILINE)
        for field in fields(kind):
            assert f"`{field.name}`" in line, f"{method}: {field.name} is not in docs/methods.md"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_name_files_that_exist(page: Path) -> None:
    named = set(re.findall(r"`([a-z_]+/[a-z_/]*\.py)`", page.read_text()))
    assert not [path for path in sorted(named) if not any((place / path).exists() for place in (SOURCE, HOME))]


def test_architecture_page_names_what_is_in_its_files() -> None:
    text, file = (HOME / "docs/architecture.md").read_text(), r"`([a-z_]+/[a-z_/]*\.py)`"
    places = re.findall(file + r"[\s,]+\(?((?:`\w+`(?:,\s+)?)+)\)", text)
    places += [(path, name) for name, path in re.findall(r"(`\w+`)\s+\(" + file, text)]
    assert len(places) > 40
    for path, names in places:
        nodes = ast.walk(ast.parse((SOURCE / path).read_text()))
        defined = {node.name for node in nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        assert set(re.findall(r"`(\w+)`", names)) <= defined, f"{path} does not define {names}"


def attributes(*kinds: type) -> set[str]:
    """The public attributes of some classes: what they define, and what their constructors set."""
    found: set[str] = set()
    for kind in kinds:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
        found |= {node.attr for node in nodes} | set(dir(kind)) | set(getattr(kind, "__dataclass_fields__", ()))
    return found


KNOWN = {
    "fl": {*fl.__all__, "__version__"},
    "cohort": attributes(fl.Cohort),
    "replies": attributes(fl.Replies),
    "context": attributes(fl.ServerContext, fl.AggregationContext),
}
"""What pages may say of the objects that every method meets, by the names that pages give them."""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_names_of_the_contract_exist(page: Path) -> None:
    text = page.read_text()
    code = "\n".join([*blocks(page, "python"), *re.findall(r"`([^`\n]+)`", text)])
    for what, attribute in re.findall(r"(?<![\w./])(fl|cohort|replies|context)\.(?!example\.org)([A-Za-z_]\w*)", code):
        assert attribute in KNOWN[what], f"{page.name} names {what}.{attribute}, which does not exist"
    # A row about the cohort names more of its attributes without repeating the word.
    for cell in re.findall(r"^\| (`cohort\..*?) \|", text, re.MULTILINE):
        names = re.findall(r"`(?:cohort\.)?([a-z_]+)", cell)
        assert set(names) <= KNOWN["cohort"], f"{page.name}: {cell}"


def test_concepts_page_has_every_part_of_a_run() -> None:
    section = (HOME / "docs/concepts.md").read_text().split("## A run is a composition")[1].split("\n## ")[0]
    shown = {
        one.removesuffix(".*")
        for row in re.findall(r"^\|[^|]*\| ([^|]*) \|", section, re.MULTILINE)
        for one in re.findall(r"`([\w.*]+)`", row)
    }
    assert {part.key for part in PARTS} <= shown
    assert shown <= set(RunConfig.model_fields)


def test_architecture_page_has_the_table_of_imports() -> None:
    text = (HOME / "docs/architecture.md").read_text()
    shown: dict[str, set[str]] = {}
    for folder, allowed in re.findall(r"^\| `(\w+)/` \|.*\| ([^|]*) \|$", text, re.MULTILINE):
        above = list(shown)
        shown[folder] = set(re.findall(r"`(\w+)`", allowed))
        if allowed == "everything above":
            shown[folder] = set(above)
        elif allowed.startswith("up to"):
            shown[folder] |= set(above[: above.index("runs") + 1])
    assert shown == MAY_IMPORT


@pytest.mark.parametrize("page", [*PAGES, HOME / "CHANGELOG.md"], ids=name)
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(found), f"{page.name}: {target}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_examples_run(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(example), str(tmp_path)])
    runpy.run_path(str(example), run_name="__main__")
    assert "%" in capsys.readouterr().out


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_examples_say_how_to_run_them(example: Path) -> None:
    assert f"python examples/{example.name}" in (ast.get_docstring(ast.parse(example.read_text())) or "")
