"""The files beside the code that name its version or its commands."""

from __future__ import annotations

import re
import tomllib

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
