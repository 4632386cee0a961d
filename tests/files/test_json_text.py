"""JSON from anywhere: a value, or a ValueError."""

import pytest

from fedloom.files.json_text import parse_json


@pytest.mark.parametrize("text", ['{"a": [1, null]}', b'{"a": [1, null]}'])
def test_a_value(text):
    assert parse_json(text) == {"a": [1, None]}


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "{", b"\xff"])
def test_what_is_none_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)
