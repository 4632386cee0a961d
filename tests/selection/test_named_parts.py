"""Names of selectors, and the page that documents them."""

import re
from dataclasses import fields

import pytest

from fedloom.registry.kinds import SELECTORS
from support.paths import DOCS


@pytest.mark.parametrize("name", ["powerofchoice", "power-of-choice", "Power_of_Choice", "poc", "POC"])
def test_a_selector_has_several_spellings(name):
    selector = SELECTORS.make_one(name)
    assert type(selector).__name__ == "PowerOfChoice"


def test_aliases_lead_to_selectors():
    assert set(SELECTORS.aliases.values()) <= set(SELECTORS)
    assert not set(SELECTORS.aliases) & set(SELECTORS)


def test_the_page_names_every_selector_and_setting():
    page = (DOCS / "selection.md").read_text()
    for name, kind in SELECTORS.items():
        (line,) = re.findall(rf"^\| `{name}`.*$", page, re.MULTILINE)
        for field in fields(kind):
            assert f"`{field.name}`" in line, f"{name}: {field.name} is not in docs/selection.md"
        assert f"## {name}\n" in page
