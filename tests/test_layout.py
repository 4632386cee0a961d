"""Tests sit where their subject sits (``tests/a/test_b.py``: ``src/fedloom/a/b.py``), and class names are unique."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import fedloom
from support.paths import REPOSITORY

SOURCE, TESTS = Path(fedloom.__file__).parent, REPOSITORY / "tests"

ACROSS_MODULES = {
    "test_composition.py": "every method with every stage and selector",
    "test_docs.py": "the pages of docs/",
    "test_docstrings.py": "what editors and the reference show of public names and methods",
    "test_generated.py": "files that are generated from the code",
    "test_imports.py": "which folder may import which",
    "test_layout.py": "where tests sit, and names of classes",
    "test_orderings.py": "which method is better than which on real data",
    "test_project_files.py": "the files beside the code",
    "test_public_names.py": "what import fedloom offers",
    "test_site.py": "the documentation site",
    "test_target_kinds.py": "every method, stage and selector with every kind of target",
    "deploy/test_containers.py": "the container files of examples/deploy",
    "deploy/test_docs_deploy.py": "the walk-through of docs/deploy.md",
    "deploy/test_machines.py": "a deployment of the command line's own programs",
    "deploy/test_real.py": "a deployment over real Flower",
    "privacy/test_hidden_draws.py": "whether anything that a private run writes tells who was drawn",
    "examples/test_notebooks.py": "the notebooks of examples/",
    "reports/test_browser.py": "the script of a report, in a real browser",
    "aggregation/test_named_parts.py": "every aggregator from its name",
    "channel/test_named_parts.py": "every step of the channel from its name",
    "selection/test_named_parts.py": "names of selectors, and the page that documents them",
    "api/test_mistakes.py": "what people pass to Python calls by mistake",
    "cli/test_mistakes.py": "what people mistype, in every command",
    "models/test_pyg.py": "the graph networks beside PyTorch Geometric's",
    "runs/test_resume_from_command_line.py": "runs that Python starts and the command line resumes",
}
"""Tests that are about no single module, and what they are about."""


def test_every_test_file_is_named_after_a_module():
    strays = []
    for path in sorted(TESTS.rglob("test_*.py")):
        name = path.relative_to(TESTS)
        root = REPOSITORY if name.parts[0] in ("bench", "examples") else SOURCE
        module = root / name.with_name(name.name.removeprefix("test_"))
        if str(name) not in ACROSS_MODULES and not module.exists():
            strays.append(str(name))
    assert not strays, (
        f"these test files mirror no module; move them, or say in {__file__} what they are about: {strays}"
    )


@pytest.mark.parametrize("name", ACROSS_MODULES)
def test_the_list_of_exceptions_holds_no_file_that_is_gone(name):
    assert (TESTS / name).exists()


def test_every_method_has_a_test_file():
    modules = [path for path in (SOURCE / "methods").rglob("*.py") if path.name != "__init__.py"]
    missing = [
        str(path.relative_to(SOURCE))
        for path in modules
        if not (TESTS / path.relative_to(SOURCE).with_name(f"test_{path.name}")).exists()
    ]
    assert modules
    assert not missing


def class_files(sources: dict[str, str]) -> dict[str, list[str]]:
    """The files that define a class of each name."""
    found = defaultdict(list)
    for file, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(file)
    return found


def test_a_class_name_exists_once_in_the_tree():
    sources = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    assert not {name: files for name, files in class_files(sources).items() if len(files) > 1}


def test_a_second_class_of_a_name_is_found():
    assert class_files({"a.py": "class Step: ...", "b.py": "def f():\n    class Step: ..."}) == {
        "Step": ["a.py", "b.py"]
    }
