"""The files beside the code that name its version or its commands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
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


KEPT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.pyc")


@pytest.mark.slow
def test_a_source_distribution_is_the_repository_and_the_wheel_of_it_has_data_files_and_examples(
    tmp_path: Path,
) -> None:
    folders = ("bench", "docs", "examples", "src", "tests")
    for name in folders:
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=KEPT_OUT)
    for path in REPOSITORY.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    _build("sdist", tmp_path)
    [archive] = tmp_path.glob("dist/*.tar.gz")
    with tarfile.open(archive) as distribution:
        distribution.extractall(tmp_path / "unpacked", filter="data")
    [unpacked] = (tmp_path / "unpacked").iterdir()
    for name in folders:
        wanted = {path.relative_to(tmp_path) for path in (tmp_path / name).rglob("*") if path.is_file()}
        missing = [path for path in wanted if "egg-info" not in str(path) and not (unpacked / path).is_file()]
        assert not missing
    for name in ("LICENSE", "CHANGELOG.md", "Makefile", "constraints.txt", "mkdocs.yml", ".dockerignore"):
        assert (unpacked / name).is_file()
    _build("wheel", unpacked)
    with zipfile.ZipFile(next(unpacked.glob("dist/*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert data_files(REPOSITORY / "src") <= names
    share = {name.partition("/data/share/fedloom/")[2] for name in names}
    examples = [path for path in (tmp_path / "examples").rglob("*") if path.is_file()]
    assert {path.relative_to(tmp_path).as_posix() for path in examples} <= share
    licences = {name.rpartition("/")[2] for name in names if "/licenses/" in name}
    assert licences == {"LICENSE", "uPlot.LICENSE"}


def _build(what: str, folder: Path) -> None:
    code = f"from setuptools.build_meta import build_{what}; build_{what}('dist')"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, timeout=300)


def test_the_table_of_extras_is_that_of_the_project() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", (REPOSITORY / "docs/install.md").read_text(), re.MULTILINE)
    stated = {extra: re.findall(r"`([^`]+)`", packages) for extra, packages in rows}
    needed = project["optional-dependencies"].items()
    assert stated == {extra: [re.split("[<>=]", one)[0] for one in packages] for extra, packages in needed}


def test_the_release_checklist_names_targets_of_the_makefile_and_the_places_of_the_version() -> None:
    page = (REPOSITORY / "docs/release.md").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    assert {"lint", "test", "exhaustive", "docs", "generated"} <= set(re.findall(r"`make ([a-z-]+)`", page)) <= targets
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    for name in ("pyproject.toml", "src/fedloom/__init__.py", "CITATION.cff"):
        assert f"`{name}`" in page
        assert version in (REPOSITORY / name).read_text()
