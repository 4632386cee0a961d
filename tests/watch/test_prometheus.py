"""The numbers for Prometheus, read by Prometheus's own parser."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from fedloom.watch.prometheus import prometheus_text
from fedloom.watch.status import REASON_CLASSES, Curve, Participant, Phase, Status
from support.paths import REPOSITORY

EVIL = 'a"b\\c\nd{e="f"} 7\n# TYPE x'
LINE = re.compile(
    r'(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{([a-z]+="(\\\\|\\"|\\n|[^"\\\n])*",?)+\})? -?[0-9.]+(e[+-]?[0-9]+)?)'
)
STATUS = Status(
    "server", "/x", EVIL, "running", round=3, rounds=10, records=4,
    metrics={"client_model/own_test/accuracy/mean": 0.5, "global_model/global_test/loss": 2.0, "other": 1.0},
    curves=[
        Curve("client_model/own_test/accuracy/mean", "A", "%", True),
        Curve("global_model/global_test/loss", "L", "loss", False),
        Curve("global_model/global_test/accuracy", "B", "%", True),
    ],
    bytes_up=7, bytes_down=9, began=0.0, last_record=90.0, round_seconds=2.5,
    participants=[Participant("north", True, 95.0), Participant(EVIL, False, clipped=3)], clients=2,
    left_out_counts={("north", "late"): 2, (EVIL, "invalid"): 1}, certificates={"server": 20, EVIL: -1},
)  # fmt: skip


def samples(status: Status, now: float) -> dict[tuple[str, ...], float]:
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")
    families = list(parser.text_string_to_metric_families(prometheus_text(status, now)))
    assert all(family.documentation and family.type in ("gauge", "counter") for family in families)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_every_fact_comes_back_from_the_parser():
    found = samples(STATUS, 100.0)
    assert found["fedloom_round",] == 3
    assert found["fedloom_runs_in_line",] == 0
    assert found["fedloom_rounds_total",] == 10
    assert found["fedloom_seconds_since_last_record",] == 10
    assert found["fedloom_round_seconds",] == 2.5
    assert found["fedloom_score", "client_model/own_test", "mean", "accuracy"] == 0.5
    assert found["fedloom_loss", "global_model/global_test", ""] == 2.0
    assert (found["fedloom_bytes_total", "up"], found["fedloom_bytes_total", "down"]) == (7, 9)
    assert (found["fedloom_sites",], found["fedloom_sites_connected",]) == (2, 1)
    assert found["fedloom_site_seconds_since_seen", "north"] == 5
    assert found["fedloom_left_out_total", "north", "late"] == 2
    assert found["fedloom_certificate_days", "server"] == 20
    assert (found["fedloom_phase", "running"], found["fedloom_phase", "failed"]) == (1, 0)
    assert found["fedloom_healthy",] == 1


def test_names_cannot_break_out_of_their_labels():
    found = samples(STATUS, 100.0)
    assert found["fedloom_site_connected", EVIL] == 0
    assert found["fedloom_left_out_total", EVIL, "invalid"] == 1
    assert found["fedloom_clipped_total", EVIL] == 3
    assert found["fedloom_certificate_days", EVIL] == -1
    assert found["fedloom_info", "server", EVIL, "", ""] == 1


def test_every_line_has_the_form_of_the_format_and_every_family_comes_once():
    lines = prometheus_text(STATUS, 100.0).split("\n")
    assert lines.pop() == ""
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    types = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    assert {line.split("{")[0].split(" ")[0] for line in lines if line[0] != "#"} == set(types)


def test_what_is_not_known_is_not_there():
    text = prometheus_text(Status("run", "/x", "t", "interrupted", "nobody works on it"), 100.0)
    assert "fedloom_round " not in text
    assert "fedloom_sites" not in text
    assert "fedloom_healthy 0.0" in text


def test_the_alert_rules_name_metrics_and_labels_that_are_exported():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: the rules are not read")
    rules = yaml.safe_load((REPOSITORY / "examples" / "deploy" / "alerts.yml").read_text())["groups"][0]["rules"]
    text = prometheus_text(STATUS, 100.0)
    exported = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert len({rule["alert"] for rule in rules}) == len(rules) > 5
    for rule in rules:
        named = re.findall(r"fedloom_\w+", rule["expr"])
        assert set(named) <= exported, rule["alert"]
        assert named or rule["expr"].startswith("up{")
        for name, label, value in re.findall(r'(fedloom_\w+)\{(\w+)="(\w+)"\}', rule["expr"]):
            values = {"phase": get_args(Phase), "reason": ("invalid", *REASON_CLASSES)}[label]
            assert value in values, rule["alert"]
            assert re.search(rf'^{name}\{{[^}}]*{label}="', text, re.MULTILINE), rule["alert"]
        for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
            assert any(re.search(rf'^{name}\{{[^}}]*{label}="', text, re.MULTILINE) for name in named), rule["alert"]
