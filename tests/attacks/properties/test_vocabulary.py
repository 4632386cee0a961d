"""Embedding rows that moved are the tokens that a client has: exactly, and of a sum those of all its clients."""

import pytest
import torch

import fedloom as fl
from fedloom.attacks.properties.vocabulary import embedding_tables, row_moves, token_counts, vocabulary_guesses
from fedloom.audits.updates_of_run import updates_of_run
from fedloom.core.errors import FedloomError
from support import small_flows

ACTIONS = "node.tables.0.weight"
WORK = {"lr": 0.1, "batch_size": 8, "epochs": 1}


@pytest.fixture(scope="module")
def task():
    return small_flows.task()


def played(task, **protection):
    return updates_of_run(task, "fedavg", rounds=1, local=WORK, eval_every=0, **protection)[0]


def test_counts_are_how_often_the_model_looks_a_token_up(task):
    positions = task.federation.train[0]
    counts = token_counts(task, positions, ACTIONS)
    parts = token_counts(task, positions[:3], ACTIONS) + token_counts(task, positions[3:], ACTIONS)
    assert torch.equal(counts, parts)
    assert 0 < int((counts > 0).sum()) < len(counts)


def test_the_rows_that_moved_are_the_tokens_that_a_client_has(task):
    for update in played(task):
        used = token_counts(task, task.federation.train[update.clients[0]], ACTIONS) > 0
        moved = row_moves(task, update, ACTIONS)
        assert not bool(moved[~used].any()), "a row that nobody looked up has no gradient"
        assert float((moved[used] > 0).double().mean()) > 0.9


def test_guesses_by_hand(task):
    first = played(task)[0]
    nobody = task.federation.train[1][:1]
    guess = vocabulary_guesses(task, [first], ACTIONS, nobody)[0]
    assert (guess.precision, guess.tokens) == (1.0, embedding_tables(task)[ACTIONS].num_embeddings)
    assert guess.recall > 0.9
    assert guess.auc > guess.usual_auc
    assert guess.used == int((token_counts(task, task.federation.train[0], ACTIONS) > 0).sum())


def test_a_sum_gives_away_what_all_have_and_noise_leaves_the_usual_guess(task):
    own = task.federation.train[0]
    (summed,) = vocabulary_guesses(task, played(task, channel=["securesum"]), ACTIONS, own)
    assert summed.clients == (0, 1, 2)
    assert min(summed.precision, summed.recall) > 0.9
    noise = {"name": "localnoise", "noise": 2.0, "clip": 0.5, "seeded": True}
    noisy = vocabulary_guesses(task, played(task, channel=[noise]), ACTIONS, own)
    share = [guess.used / guess.tokens for guess in noisy]
    assert [guess.precision for guess in noisy] == pytest.approx(share), "every row has moved: all are guessed"
    assert sum(guess.auc for guess in noisy) / 3 < 0.75


def test_a_model_without_tables_is_refused(task):
    with pytest.raises(FedloomError, match=r"no embedding table 'words': its tables are node\.tables\.0\.weight"):
        token_counts(task, task.federation.train[0], "words")
    images = fl.task("digits", clients=3)
    with pytest.raises(FedloomError, match="it has none: use a task of flows or of words"):
        token_counts(images, images.federation.train[0], ACTIONS)
