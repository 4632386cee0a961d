"""User files: told apart by their path, run once while they do not change, and named when they cannot be found."""

import sys

import pytest

from fedloom.core.errors import FedloomError
from fedloom.core.selector import Choice
from fedloom.registry.user_classes import resolve_user_file, user_class, user_class_name, user_modules

FILE = "class {name}:\n    pass\n"


def test_two_files_of_the_same_name_are_two_modules(tmp_path):
    paths = [tmp_path / folder / "mine.py" for folder in ("one", "other")]
    for path, name in zip(paths, ("First", "Second"), strict=True):
        path.parent.mkdir()
        path.write_text(FILE.format(name=name))
    kinds = [
        user_class(f"{path}:{name}", object, "part") for path, name in zip(paths, ("First", "Second"), strict=True)
    ]
    assert [user_class_name(kind) for kind in kinds] == [f"{paths[0]}:First", f"{paths[1]}:Second"]


def test_a_file_is_run_once_until_it_changes(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE.format(name="Part"))
    first = user_class(f"{path}:Part", object, "part")
    assert user_class(f"{path}:Part", object, "part") is first
    path.write_text(FILE.format(name="Part") + "    more = 1\n")
    assert user_class(f"{path}:Part", object, "part").more == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.py:Part", "there is no file"),
        ("__main__:Nothing", "put it at the top of a file"),
        ("json:JSONDecoder", "has no class JSONDecoder that is a fedloom Choice"),
    ],
)
def test_what_cannot_be_found_is_said(name, said):
    with pytest.raises(FedloomError, match=said):
        user_class(name, Choice, "part")


@pytest.fixture
def package(tmp_path, monkeypatch, request):
    """A package with a name of its own in the working folder; its net uses a sibling by a relative import."""
    name = f"pkg_{abs(hash(request.node.name)) % 10**8}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "nets.py").write_text("from .sizes import WIDTH\n\n\nclass Part:\n    width = WIDTH\n")
    (folder / "sizes.py").write_text("WIDTH = 3\n")
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_class_of_a_package_in_the_working_folder_is_found_by_module_or_file_and_named_by_file(package):
    by_module = user_class(f"{package.name}.nets:Part", object, "part")
    assert by_module.width == 3
    assert user_class(f"{package}/nets.py:Part", object, "part") is by_module
    assert resolve_user_file(f"{package.name}.nets:Part") == user_class_name(by_module) == f"{package}/nets.py:Part"
    assert sys.modules[by_module.__module__] in user_modules()


def test_a_package_whose_sibling_changes_is_run_again(package):
    assert user_class(f"{package}/nets.py:Part", object, "part").width == 3
    (package / "sizes.py").write_text("WIDTH = 55\n")
    assert user_class(f"{package}/nets.py:Part", object, "part").width == 55


def test_a_file_imports_what_lies_beside_it(package):
    user = package.parent / "mine.py"
    user.write_text(f"from {package.name}.nets import Part as Base\n\n\nclass Mine(Base):\n    pass\n")
    assert user_class(f"{user}:Mine", object, "part").width == 3


def test_a_relative_import_without_a_package_says_what_is_missing(package):
    (package / "__init__.py").unlink()
    with pytest.raises(FedloomError, match=r"relative import.*add an empty __init__\.py beside it"):
        user_class(f"{package}/nets.py:Part", object, "part")


def test_a_sibling_with_the_name_of_another_module_is_refused(package):
    (package.parent / "json.py").write_text("WIDTH = 3\n")
    user = package.parent / "mine.py"
    user.write_text("import json\n\n\nclass Mine:\n    pass\n")
    with pytest.raises(FedloomError, match=r"json\.py beside it has the name of another module, json.*rename the file"):
        user_class(f"{user}:Mine", object, "part")


def test_an_installed_module_is_not_taken_for_one_in_the_working_folder(package):
    (package.parent / "json").mkdir()
    (package.parent / "json" / "__init__.py").write_text("")
    assert resolve_user_file("json:JSONDecoder") == "json:JSONDecoder"
