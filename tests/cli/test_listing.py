"""What ``fedloom list`` prints."""

import json


def test_selectors_are_listed_with_their_settings(fedloom):
    done = fedloom("list", "selectors", "--json")
    rows = {row["name"]: row["settings"] for row in json.loads(done.stdout)}
    assert list(rows) == ["random", "poisson", "powerofchoice", "rawcs", "oort"]
    assert rows["powerofchoice"]["candidates"] is None
    assert rows["rawcs"]["level"] == "high"
