"""Reports of private runs say what was spent, for whom and against whom."""

from fedloom.reports.privacy_table import privacy_table
from support.histories import history


def private(name: str, *values: float, **config):
    runs = []
    for value in values:
        run = history([0.5, 0.6])
        run.records[-1]["metrics"][name] = value
        run.config.update(config)
        runs.append(run)
    return runs


def test_a_run_without_noise_says_nothing():
    assert list(privacy_table({"plain": [history([0.5, 0.6])]})) == []


def test_the_largest_epsilon_over_seeds_is_shown_with_its_delta():
    central = private("privacy/epsilon", 1.5, 1.75, aggregation={"name": "privatemean", "delta": 1e-4})
    steps = [{"name": "localnoise", "delta": 1e-6, "seeded": True}, {"name": "topk"}]
    page = "".join(privacy_table({"one": central, "two": private("privacy/local_epsilon", 3.0, channel=steps)}))
    assert "<td>one</td><td>clients</td><td>everybody but the server</td><td>1.75</td><td>0.0001</td>" in page
    assert "everybody, for study only: the noise is seeded</td><td>3</td><td>1e-06</td>" in page
    sample = private("privacy/sample_epsilon", 2.0, sample_privacy={"delta": 1e-5})
    assert "single samples" in "".join(privacy_table({"one": sample}))
