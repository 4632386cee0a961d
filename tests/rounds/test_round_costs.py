"""What a record says of a round's costs where nobody may learn who was drawn."""

import pytest

from fedloom.rounds.round_costs import PlannedCosts, RoundCosts


@pytest.mark.parametrize(("each", "average"), [(7, 2.5), (60_041, 0.3 * 35), (101, 0.1 * 45)])
def test_hidden_costs_are_the_same_to_the_byte_however_many_were_drawn(each, average):
    """Half a byte is rounded to one side, whatever the last bit of a float would be."""
    found = set()
    for drawn in range(1, 60):
        costs = RoundCosts(bytes_down=each * drawn, bytes_up=3 * each * drawn, steps=drawn, selected=set(range(drawn)))
        costs.hide_draws(PlannedCosts(average, 12))
        found.add((costs.bytes_down, costs.bytes_up, costs.steps, len(costs.selected)))
    assert len(found) == 1
