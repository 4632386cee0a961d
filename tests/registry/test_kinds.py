"""The registries: what is in them, and names in any spelling."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from fedloom.registry import kinds
from fedloom.registry.kinds import METHODS
from fedloom.registry.registry import Registry

REGISTRIES = {name: one for name, one in vars(kinds).items() if isinstance(one, Registry)}


@pytest.mark.parametrize("registry", REGISTRIES.values(), ids=list(REGISTRIES))
def test_every_entry_can_be_imported_and_named_again(registry):
    for name in registry.builtin:
        assert registry[name] is not None
        assert registry.canonical(name.upper().replace("-", "_")) == name
        if isinstance(registry[name], type):
            assert registry.name_of(registry[name]) == name
            assert issubclass(registry[name], registry.base)


@pytest.mark.parametrize("registry", REGISTRIES.values(), ids=list(REGISTRIES))
def test_aliases_lead_to_parts_and_hide_none(registry):
    assert set(registry.aliases.values()) <= set(registry)
    assert not set(registry.aliases) & set(registry)


def test_a_part_is_imported_when_it_is_first_used():
    code = (
        "import sys\nfrom fedloom.registry.kinds import METHODS\n"
        "assert 'scaffold' in METHODS and not any(m.startswith('fedloom.methods') for m in sys.modules)\n"
        "METHODS.find('SCAFFOLD')\n"
        "assert 'fedloom.methods.scaffold' in sys.modules and 'fedloom.methods.fedrep' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("written", "read"),
    [("fedhybridavglg:threshold=inf", math.inf), ("FedHybridAvgLG-Dual:threshold=50", 50), ("fedhybridavglg", 2200)],
)
def test_hybrids_are_named_as_on_the_command_line(written, read):
    assert METHODS.make(written).threshold == read
