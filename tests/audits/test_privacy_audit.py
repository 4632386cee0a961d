"""The table of the audit."""

import numpy as np

from fedloom.audits.privacy_audit import AuditRow, audit_privacy


class Telling:
    """A mechanism that always tells, and states an epsilon."""

    name, neighbour = "telling", "zero"

    def __init__(self, stated: float) -> None:
        self.stated = stated

    def play(self, presence, trials):
        return np.full(trials, float(presence == "in")), self.stated


def test_every_case_has_a_row_that_is_seen_at_once_and_says_whether_it_holds():
    seen: list[AuditRow] = []
    rows = audit_privacy([Telling(1.0), Telling(50.0)], 400, seen.append)
    assert seen == rows
    assert [row.holds for row in rows] == [False, True]
    assert rows[0].lower_bound > 3
