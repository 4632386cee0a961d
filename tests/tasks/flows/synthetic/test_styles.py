"""What organisations share and in what they differ."""

from __future__ import annotations

import numpy as np
import pytest

from fedloom.tasks.flows.platform_kinds import KINDS, SUBKINDS, TARGETS
from fedloom.tasks.flows.synthetic.client_sizes import SIZES, group
from fedloom.tasks.flows.synthetic.grammar import PER_THEME, ROLES, TYPES, grammar
from fedloom.tasks.flows.synthetic.growth import grow
from fedloom.tasks.flows.synthetic.styles import NAMED, NEW_ACTION, PLATFORM_TOKENS, PRIVATE_TOKENS, styles

CLIENT_ACTION = TARGETS.index("ExecuteClientAction")


@pytest.fixture(scope="module")
def all_styles():
    return styles(0, 1_000)


def test_shares_of_kinds_have_the_mean_and_the_deviation_of_table_b1(all_styles):
    mean, std = np.array([KINDS[kind] for kind in TARGETS]).T
    assert np.allclose(all_styles.shares.sum(1), 1)
    assert np.allclose(100 * all_styles.shares.mean(0), mean, atol=0.01)
    assert np.allclose(100 * all_styles.shares.std(0, ddof=1), std, rtol=0.05, atol=0.01)


def test_biases_make_flows_show_these_shares(all_styles):
    who = np.repeat(np.arange(len(SIZES)), 100)
    random = np.random.default_rng(0)
    types = random.integers(0, len(TYPES), len(who))
    found = grow(grammar(0), all_styles.bias[who], types, all_styles.name_actions(who, random), random)
    counts = found.expected.reshape(len(SIZES), 100, -1).sum(1)
    shares = counts / counts.sum(1, keepdims=True)
    assert np.abs(shares.mean(0) - all_styles.shares.mean(0)).max() < 0.01
    assert np.abs(shares - all_styles.shares).mean() < 0.01


def test_mobile_organisations_have_most_client_actions_and_nobody_has_none(all_styles):
    client = all_styles.shares[:, CLIENT_ACTION]
    assert client[all_styles.mobile].min() > client[~all_styles.mobile].max()
    assert client.min() > 0.002
    assert np.allclose(client[list(NEW_ACTION)], 0.05, atol=0.01)


def test_platform_names_play_one_role_everywhere_and_all_roles_have_one(all_styles):
    platform = all_styles.roles[:, :PLATFORM_TOKENS]
    assert (platform == platform[0]).all()
    assert set(platform[0].tolist()) == set(range(ROLES))


def test_private_names_and_modules_mean_different_things_in_two_organisations(all_styles):
    private = all_styles.roles[:, PLATFORM_TOKENS:]
    assert private.shape == (len(SIZES), PRIVATE_TOKENS)
    agree = (private[:, None] == private[None]).mean(-1)[np.triu_indices(len(SIZES), 1)]
    assert agree.mean() == pytest.approx(1 / ROLES, abs=0.01)
    assert len(np.unique(all_styles.modules, axis=0)) == len(SIZES)


def test_bigger_organisations_use_more_private_names_more_often(all_styles):
    assert all_styles.private_rate.tolist() == [
        {"small": 0.15, "intermediate": 0.55, "big": 0.7}[group(n)] for n in SIZES
    ]
    assert all_styles.in_use.tolist() == np.clip(all_styles.size // 40, 5, 90).tolist()
    who = np.array([0, 32]).repeat(20_000)
    token, role = all_styles.name_actions(who, np.random.default_rng(0))(np.arange(len(who)))
    private = token >= PLATFORM_TOKENS
    assert private[who == 0].mean() == pytest.approx(0.15, abs=0.02)
    assert private[who == 32].mean() == pytest.approx(0.70, abs=0.02)
    assert len(np.unique(token[(who == 0) & private])) == 5
    assert len(np.unique(token[(who == 32) & private])) == 25
    assert (role == all_styles.roles[who, token]).all()
    assert role.max() // PER_THEME == 9


def test_subkinds_differ_by_organisation_and_by_the_role_before(all_styles):
    for kind, names in NAMED.items():
        chances = all_styles.subkinds[kind]
        assert chances.shape == (len(SIZES), ROLES, len(names))
        assert np.allclose(chances.sum(-1), 1)
        assert chances.std(0).mean() > 0.001
        assert chances.mean(0).std(0).mean() > 0.001
        common = max(names, key=lambda name: SUBKINDS[name].mean)
        assert chances.mean((0, 1)).argmax() == names.index(common)
