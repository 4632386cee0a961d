"""Balanced weights are scikit-learn's, of training labels alone; numbers and names say the same."""

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

import fedloom as fl
from fedloom.core.class_weights import fit_class_weights
from fedloom.core.errors import FedloomError
from fedloom.core.targets import IGNORED

X = np.random.default_rng(0).normal(size=(300, 3))
CLIENT = np.arange(300) % 3
RARE = (X[:, 0] > 1).astype(np.int64) + (X[:, 1] > 1.5)


def training_targets(federation):
    return federation.columns["y"][federation.train.order].numpy()


def test_balanced_weights_of_classes_are_scikit_learns():
    data = fl.from_arrays(X, RARE, CLIENT)
    y = training_targets(data)
    expected = compute_class_weight("balanced", classes=np.arange(3), y=y)
    assert fit_class_weights("balanced", data) == pytest.approx(expected.tolist(), rel=1e-12)
    assert len(y) < len(RARE)  # test samples do not count


def test_all_classes_count_the_same_in_sum_and_a_sample_counts_one_on_average():
    data = fl.from_arrays(X, RARE, CLIENT)
    weights = np.array(fit_class_weights("balanced", data))
    sums = weights * np.bincount(training_targets(data))
    assert np.allclose(sums, sums[0])
    assert np.isclose(sums.sum(), len(data.train.order))


def test_a_class_without_training_samples_counts_one_and_changes_no_other():
    two = fl.from_arrays(X, RARE.clip(max=1), CLIENT, classes=2)
    more = fl.from_arrays(X, RARE.clip(max=1), CLIENT, classes=4)
    assert fit_class_weights("balanced", more) == (*fit_class_weights("balanced", two), 1.0, 1.0)


def test_tokens_count_and_padding_does_not():
    y = np.stack([RARE, np.where(RARE == 0, IGNORED, RARE)], 1)
    data = fl.from_arrays(X, y, CLIENT, kind="tokens")
    counted = training_targets(data).ravel()
    counted = counted[counted != IGNORED]
    expected = compute_class_weight("balanced", classes=np.arange(3), y=counted)
    assert fit_class_weights("balanced", data) == pytest.approx(expected.tolist(), rel=1e-12)


def test_balanced_weights_of_a_label_have_the_ratio_of_scikit_learns():
    y = (X > [1.5, 0, -1]).astype(np.uint8)
    data = fl.from_arrays(X, y, CLIENT)
    expected = [compute_class_weight("balanced", classes=np.arange(2), y=column) for column in training_targets(data).T]
    found = fit_class_weights("balanced", data)
    assert found == pytest.approx([having / without for without, having in expected], rel=1e-12)


def test_a_label_that_nobody_or_everybody_has_counts_one():
    y = np.stack([X[:, 0] > 0, np.zeros(300), np.ones(300)], 1).astype(np.uint8)
    assert fit_class_weights("balanced", fl.from_arrays(X, y, CLIENT))[1:] == (1.0, 1.0)


@pytest.mark.parametrize("loss", ["cross_entropy", "focal"])
def test_a_run_with_balanced_weights_is_the_run_with_their_numbers_to_the_byte(loss):
    data = fl.from_arrays(X, RARE, CLIENT)
    numbers = list(fit_class_weights("balanced", data))
    tasks = [
        fl.task_of(data, "logistic", loss={"name": loss, "class_weights": weights}) for weights in ("balanced", numbers)
    ]
    assert tasks[0].objective == tasks[1].objective
    assert torch.equal(*(fl.run(task, rounds=2).row for task in tasks))
    assert not torch.equal(
        fl.run(tasks[0], rounds=2).row, fl.run(fl.task_of(data, "logistic", loss=loss), rounds=2).row
    )


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ("balenced", "class_weights='balenced'.*it must be a list, a table or 'balanced'"),
        ([1, "balanced"], "each entry must be a number"),
        ({"fever": 2}, "unknown label in the loss's class_weights: 'fever'"),
        ([1, 2], "has 2 weights, but there are 3 labels"),
    ],
)
def test_wrong_weights_of_labels_are_refused_in_a_sentence(weights, said):
    data = fl.from_arrays(X, (X > 0).astype(np.uint8), CLIENT)
    with pytest.raises(FedloomError, match=said):
        fl.task_of(data, "logistic", loss={"name": "bce", "class_weights": weights})


def test_balanced_weights_of_a_stream_are_refused():
    with pytest.raises(FedloomError, match="class_weights do not go with a stream"):
        fl.task_of(
            fl.from_arrays(X, RARE, CLIENT),
            "logistic",
            loss={"name": "cross_entropy", "class_weights": "balanced"},
            stream={"tasks": 3, "rounds": 1},
        )
