"""Names with settings as they are written on the command line."""

import pytest

from fedloom.registry.spec import split_commas, split_spec, split_specs


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


@pytest.mark.parametrize(
    ("written", "specs"),
    [
        ("", []),
        ("svt", ["svt"]),
        ("svt:fraction=0.1,epsilon=2,qsgd", ["svt:fraction=0.1,epsilon=2", "qsgd"]),
        ("topk, my.py:Mine:widths=[1, 2],mu=2", ["topk", "my.py:Mine:widths=[1, 2],mu=2"]),
        ("foolsgold,multikrum:share=0.3", ["foolsgold", "multikrum:share=0.3"]),
    ],
)
def test_several_parts_are_between_commas_and_settings_stay_with_theirs(written, specs):
    assert split_specs(written) == specs


def test_commas_in_brackets_and_quotes_do_not_separate():
    assert split_commas("a, [1, 2],'b, c'") == ["a", "[1, 2]", "'b, c'"]
