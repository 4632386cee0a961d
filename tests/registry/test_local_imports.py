"""What a user's file imports from beside it: found without running anything, and what a package's files are called."""

from pathlib import Path

import pytest

from fedloom.registry.local_imports import import_root, local_sources, module_of


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A package in a folder with a module beside it: nets → layers → sizes, and nets → deep.more through both inits."""
    files = {
        "mypkg/__init__.py": "",
        "mypkg/nets.py": "from .layers import head\nfrom . import deep\nfrom mypkg.deep import more\nimport torch",
        "mypkg/layers.py": "import sizes",
        "mypkg/deep/__init__.py": "",
        "mypkg/deep/more.py": "raise RuntimeError('this is never run')",
        "mypkg/other.py": "from .nets import Net",
        "sizes.py": "WIDTH = 3",
        "alone.py": "import json\n",
        "broken.py": "def (",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def test_imports_start_at_the_folder_of_the_outermost_package(place):
    assert import_root(place / "mypkg/deep/more.py") == place
    assert module_of(place / "mypkg/deep/more.py") == "mypkg.deep.more"
    assert module_of(place / "mypkg/deep/__init__.py") == "mypkg.deep"
    assert module_of(place / "alone.py") == "alone"


def test_all_files_that_are_imported_are_found_directly_or_not(place):
    found = {one.relative_to(place).as_posix() for one in local_sources(place / "mypkg/nets.py")}
    assert found == {
        *("mypkg/__init__.py", "mypkg/nets.py", "mypkg/layers.py", "mypkg/deep/__init__.py", "mypkg/deep/more.py"),
        "sizes.py",
    }


@pytest.mark.parametrize("name", ["alone.py", "broken.py", "nowhere.py"])
def test_a_file_that_imports_nothing_beside_it_is_alone(place, name):
    assert local_sources(place / name) == [place / name]
