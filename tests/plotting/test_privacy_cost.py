"""The figure of a score against epsilon."""

from fedloom.plotting.privacy_cost import privacy_cost_figure


def test_every_method_has_a_line_over_epsilon_and_a_mark_without_noise():
    values = {
        "one": {0.5: [0.5, 0.7], 8.0: [0.8, 0.8], None: [0.9, 0.9]},
        "two": {0.5: [0.4, 0.4], 8.0: [0.7, 0.7], None: [0.8, 0.9]},
    }
    (axes,) = privacy_cost_figure(values, "title").axes
    lines = {line.get_label(): line.get_ydata().tolist() for line in axes.lines}
    assert lines["one"] == [0.6, 0.8]
    assert lines["two"] == [0.4, 0.7]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5", "8", "no noise"]
    assert {text.get_text() for text in axes.texts} >= {"one", "two"}
