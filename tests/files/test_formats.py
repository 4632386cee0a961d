"""Formats: one migration per step, the table in the module is whole, and what is newer is refused."""

from __future__ import annotations

import pytest

from fedloom.core.errors import FedloomError
from fedloom.files import formats
from fedloom.files.formats import SAVED_MODEL, SETTINGS, Format

ALL = {name: one for name, one in vars(formats).items() if isinstance(one, Format)}
BY_FOLDERS = {"RUN_FOLDER", "CLIENT_STATE"}
"""Formats of folders: a run's of format 1 are read as they are, and a client's state belongs to one version."""


@pytest.mark.parametrize("name", ALL)
def test_every_step_has_one_migration_and_the_table_names_the_format(name):
    steps = set(range(1, ALL[name].version))
    assert set(ALL[name].migrations) == (set() if name in BY_FOLDERS else steps)
    assert f"| ``{name}`` |" in (formats.__doc__ or "")


@pytest.mark.parametrize("name", ALL)
def test_what_a_newer_version_wrote_is_refused_in_a_sentence(name):
    newer = ALL[name].version + 1
    with pytest.raises(
        FedloomError, match=r"^x\.toml was written by a newer Fedloom .*: upgrade Fedloom\.$"
    ) as refused:
        ALL[name].upgrade({}, newer, "x.toml")
    assert f"format {newer}, this one knows {newer - 1}" in str(refused.value)


@pytest.mark.parametrize("number", [0, -1, "two", None, True, 1.5])
def test_what_is_no_number_is_refused(number):
    with pytest.raises(FedloomError, match=r"x\.toml has the format .* which is not a number of settings: restore it"):
        SETTINGS.check(number, "x.toml")


def test_settings_go_through_all_steps_after_their_own():
    given = {"personal": ["finetune"], "task": {"partition": {"name": "dirichlet", "alpha": 0.1}}}
    order = {"name": "dirichlet", "alpha": 0.1, "class_order": "label"}
    assert SETTINGS.upgrade(given, 1, "x") == {"prediction": ["finetune"], "task": {"partition": order}}
    assert SETTINGS.upgrade(given, 2, "x") == {"personal": ["finetune"], "task": {"partition": order}}
    assert SETTINGS.upgrade(given, 3, "x") == given
    assert given["task"]["partition"] == {"name": "dirichlet", "alpha": 0.1}  # migrations change nothing in place
    assert SETTINGS.upgrade({"config": given}, 1, "x")["config"] == SETTINGS.upgrade(given, 1, "x")


def test_an_order_of_classes_that_is_there_and_other_partitions_stay():
    for partition in ({"name": "dirichlet", "class_order": "random"}, {"name": "iid"}, "iid", None):
        values = {"task": {"partition": partition}}
        assert SETTINGS.upgrade(values, 2, "x") == values


def test_a_model_of_format_1_has_nothing_to_check():
    assert SAVED_MODEL.upgrade({"client": "a", "format": 1}, 1, "x") == {
        "client": "a", "format": 1, "files": {}, "digest": "",
    }  # fmt: skip
