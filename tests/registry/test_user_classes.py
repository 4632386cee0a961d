"""User files: told apart by their path, run once while they do not change, and named when they cannot be found."""

import pytest

from fedloom.core.errors import FedloomError
from fedloom.core.selector import Choice
from fedloom.registry.user_classes import user_class, user_class_name

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
