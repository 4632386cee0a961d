"""Reports of streams say what is left of each task; those of other runs say nothing of it."""

from __future__ import annotations

import fedloom as fl
from fedloom.reports.run_page import report_page
from fedloom.reports.stream_table import stream_table
from support.histories import history


def streamed(*accuracies: float, where: str = "client_model/own_test/{}/mean") -> fl.History:
    run = history([0.5, 0.6])
    metrics = run.records[-1]["metrics"]
    metrics |= {where.format(f"task_{n}_accuracy"): value for n, value in enumerate(accuracies, 1)}
    metrics[where.format("forgetting")] = 0.25
    return run


def test_a_run_without_a_stream_says_nothing():
    assert list(stream_table({"plain": [history([0.5, 0.6])]})) == []
    assert list(stream_table({"plain": [history([0.5, 0.6])], "streamed": [streamed(0.5)]})) == []


def test_each_task_and_forgetting_are_means_over_seeds():
    page = "".join(stream_table({"one": [streamed(0.2, 0.8), streamed(0.4, 0.8)], "two": [streamed(0.9, 0.1)]}))
    assert "<td>one</td><td>30.0 ± 14.1</td><td>80.0 ± 0.0</td><td>25.0 ± 0.0</td>" in page
    assert "<td>two</td><td>90.0</td><td>10.0</td><td>25.0</td>" in page
    assert "clients' models on their own tests" in page


def test_where_clients_have_no_tests_of_their_own_the_servers_model_is_shown():
    runs = [streamed(0.3, where="global_model/global_test/{}")]
    assert "the server's model on the global test set" in "".join(stream_table({"one": runs}))


def test_the_report_of_a_real_stream_has_the_table():
    task = fl.task("digits", clients=3, stream={"tasks": 2, "rounds": 1})
    run = fl.run(task, "fedavg", rounds=2)
    page = report_page({"fedavg": [run]})
    lost = 100 * run.records[-1]["metrics"]["client_model/own_test/forgetting/mean"]
    assert '<h2 id="stream">' in page
    assert f"<td>{lost:.1f}</td></tr>" in page
