"""The files beside the code that name its version or its commands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import fedloom
from support.paths import REPOSITORY


def test_the_project_and_the_citation_have_the_version_and_licence_of_the_package() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    citation = dict(re.findall(r"^([a-z-]+): (.+)$", (REPOSITORY / "CITATION.cff").read_text(), re.MULTILINE))
    assert citation["version"] == project["version"] == fedloom.__version__
    assert citation["license"] == project["license"]


def test_contributing_names_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^    |`)make ([a-z-]+)", (REPOSITORY / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    assert {"setup", "quick", "test", "lint", "docs"} <= named <= targets


def data_files(root: Path) -> set[str]:
    """The files of the package that are neither code nor its cache, as paths in a wheel."""
    found = (path for path in (root / "fedloom").rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc"))
    return {path.relative_to(root).as_posix() for path in found}


def test_every_file_that_is_not_code_has_a_pattern_and_every_pattern_a_file() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]
    source = REPOSITORY / "src"
    found = {name: set((source / "fedloom").glob(name)) for name in project["package-data"]["fedloom"]}
    assert [name for name, files in found.items() if not files] == []
    assert {path.relative_to(source).as_posix() for files in found.values() for path in files} == data_files(source)


@pytest.mark.slow
def test_a_wheel_has_every_file_that_is_not_code(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(REPOSITORY / name, tmp_path)
    shutil.copytree(REPOSITORY / "src/fedloom", tmp_path / "src/fedloom", ignore=shutil.ignore_patterns("__pycache__"))
    build = "from setuptools.build_meta import build_wheel; build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, check=True, capture_output=True, timeout=300)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        assert data_files(REPOSITORY / "src") <= set(wheel.namelist())
