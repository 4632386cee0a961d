"""Tags of encrypted rows: a sum has the announced clients' tags only if each of them is in it once."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.secure.row_tags import BITS, TAGS, RowTags, tagged_width
from fedloom.secure.sum_step import Opening, SumSession

SLOTS, STEP, IDS = 8, 2.0**-17, (2, 3, 5, 7)
SESSION = SumSession("run", 1, 0, IDS, 100, b"model")
TAGGED = RowTags.of(b"secret", SESSION)


def total(*clients: int, tags: RowTags = TAGGED) -> torch.Tensor:
    """The sum of some clients' rows of 1, 2, ... 15, in steps."""
    row = torch.arange(15).double() + 1
    return torch.stack([tags.add(row * STEP, SLOTS, STEP, client) for client in clients]).sum(0) / STEP


@given(st.lists(st.sampled_from(IDS), min_size=1, max_size=6), st.sets(st.sampled_from(IDS), min_size=1))
def test_a_sum_opens_for_exactly_its_clients(added, announced):
    found = TAGGED.remove(total(*added), SLOTS, sorted(announced))
    if sorted(added) == sorted(announced):
        assert torch.equal(found[:15], len(added) * (torch.arange(15).double() + 1))
    else:
        assert found is None


def test_tags_belong_to_one_sum_and_one_text():
    for other in (RowTags.of(b"another", SESSION), RowTags.of(b"secret", replace(SESSION, round=2))):
        assert other.remove(total(*IDS), SLOTS, IDS) is None
    texts = total(*IDS).view(-1, SLOTS)
    assert TAGGED.remove(texts.flip(0).flatten(), SLOTS, IDS) is None


def test_tags_belong_to_the_numbers_behind_them():
    """A server can multiply the numbers of a text by others than its tags: it gets a sum in which one client counts."""
    places = [place for place in range(3 * SLOTS) if place % SLOTS >= TAGS]
    for place in places:
        for more in (1.0, -1.0, 2.0**34):
            changed = total(*IDS)
            changed[place] += more
            assert TAGGED.remove(changed, SLOTS, IDS) is None


def test_numbers_of_either_sign_up_to_the_largest_sum_have_tags():
    rows = torch.tensor([[-(2.0**33), 2.0**33 - 1, 0.0], [5.0, 2.0**33, -1.0]]).double()
    tagged = [TAGGED.add(row * STEP, SLOTS, STEP, client) for row, client in zip(rows, (2, 7), strict=True)]
    found = TAGGED.remove(torch.stack(tagged).sum(0) / STEP, SLOTS, (2, 7))
    assert torch.equal(found[:3], rows.sum(0))


def test_tags_are_numbers_that_a_sum_of_32_rows_can_hold():
    assert tagged_width(15, SLOTS) == 3 * SLOTS
    tags = torch.cat([total(client).view(-1, SLOTS)[:, :TAGS].flatten() for client in range(100)])
    assert float(tags.min()) >= 0
    assert float(tags.max()) < 2**BITS
    assert 2**BITS * STEP * 32 <= 2.0**18
    assert len(set(tags.tolist())) == len(tags)


def test_a_confirmation_is_of_one_client_and_one_sum():
    one = Opening(IDS, b"total")
    codes = {
        TAGGED.confirmation(one, 2),
        TAGGED.confirmation(one, 3),
        TAGGED.confirmation(replace(one, total=b"other"), 2),
        TAGGED.confirmation(replace(one, clients=(2, 3)), 2),
        RowTags.of(b"another", SESSION).confirmation(one, 2),
    }
    assert len(codes) == 5
