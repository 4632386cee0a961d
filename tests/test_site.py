"""The documentation site: it builds offline and without a warning, and its reference has every public name."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import DOCS, REPOSITORY
from support.public_names import public_names

pytestmark = pytest.mark.xdist_group("site")  # built once
CONFIG = REPOSITORY / "mkdocs.yml"
USUAL = r"Build started|No issues found|Build finished in \S+"
"""What a build without warnings says, line by line."""


def without_network() -> list[str]:
    """The start of a command that has no network, where this machine can do that."""
    unshare = shutil.which("unshare")
    possible = unshare and subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode == 0
    return [str(unshare), "-rn"] if possible else []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Its folder is not the repository's, in which `make docs` may be at work."""
    pytest.importorskip("zensical", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(CONFIG, folder)
    shutil.copytree(DOCS, folder / "docs")
    (folder / "src").symlink_to(REPOSITORY / "src")
    command = [*without_network(), sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=240)
    said = (built.stdout + built.stderr).splitlines()
    assert built.returncode == 0, said
    assert not [line for line in said if not re.fullmatch(USUAL, line)], said
    return folder / "build" / "site"


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"^ +- (?:.*: )?(\S+\.md)$", CONFIG.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


@pytest.mark.slow
def test_the_reference_has_every_public_name(site: Path) -> None:
    pages = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    assert not [name for name in public_names() if f'id="{name}"' not in pages]


@pytest.mark.slow
def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    loads = r"<(?:script|img|iframe)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b[^>]*\bhref=\"?(?:https?:)?//"
    for page in site.rglob("*.html"):
        assert not re.findall(loads, page.read_text()), page.name
