"""Names with settings as they are written on the command line."""

import pytest

from fedloom.registry.spec import split_commas, split_spec


@pytest.mark.parametrize(
    ("written", "name", "settings"),
    [
        ("my.py:Mine", "my.py:Mine", {}),
        ("my.py:Mine:mu=2", "my.py:Mine", {"mu": 2}),
        ("fedseq:inner.name=fedprox,inner.mu=0.1", "fedseq", {"inner": {"name": "fedprox", "mu": 0.1}}),
        ("mlp:hidden=[64, 32],dropout=0.1", "mlp", {"hidden": [64, 32], "dropout": 0.1}),
    ],
)
def test_a_spec_is_a_name_and_settings(written, name, settings):
    assert split_spec(written) == (name, settings)


def test_commas_in_brackets_and_quotes_do_not_separate():
    assert split_commas("a, [1, 2],'b, c'") == ["a", "[1, 2]", "'b, c'"]
