"""How the organisations of the synthetic corpus differ; they share one grammar.

- Words: 60 platform names play the same role everywhere; the roles of 90 private names are drawn per organisation, and
  so are the modules that group them: one name has different meanings in two organisations. The bigger an organisation,
  the more of its names are private.
- Kinds: each organisation has its own shares of the kinds, drawn so that their mean and deviation over the 33 are
  those of table B.1; nine are mobile ones, with most of the client actions. Biases are fitted until flows show them.
- Subkinds: P(subkind | kind, role of the action before) = softmax(shared + N(0, 1.2) of the organisation).

Everything is drawn for all 33 organisations: an organisation does not depend on which others are used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from fedloom.core.seeds import numpy_generator
from fedloom.tasks.flows.platform_kinds import KINDS, SPLIT, SUBKINDS, TARGETS, kind_of
from fedloom.tasks.flows.synthetic.client_sizes import GROUPS, SIZES, group, scaled_size
from fedloom.tasks.flows.synthetic.grammar import PER_THEME, ROLES, THEMES, TYPES, Array, grammar
from fedloom.tasks.flows.synthetic.growth import GrownFlows, NameActions, grow

PLATFORM_TOKENS, PRIVATE_TOKENS, PRIVATE_MODULES = 60, 90, 15
PRIVATE_RATE = dict(zip(GROUPS, (0.15, 0.55, 0.70), strict=True))
POINTS_PER_TOKEN, FEWEST_TOKENS = 40, 5
SKEW = 2.0
"""Some private names are used more than others: the share x of the most used names has x^(1/2) of all uses."""

MOBILE = 9
NEW_ACTION, NEW_ACTION_SHARE = (18, 30), 0.05
"""The two organisations (in `SIZES`) from which the thesis withholds client actions, and their share of these."""
MOBILE_PULL = {
    "ExecuteClientAction": 0.95,
    "JavascriptNode": 0.6,
    "TriggerEvent": 0.6,
    "AjaxRefresh": -0.4,
    "WebDestination": -0.4,
}
"""The correlation of a kind's share with an organisation being mobile (or web)."""

SUBKIND_ROLE, SUBKIND_OWN = 1.5, 1.2
"""How strongly the role of the action before, and the organisation, influence the subkind."""

FITTING_FLOWS, FITTING_ROUNDS = 100, 10

NAMED = {
    kind: tuple(name for name, often in SUBKINDS.items() if kind_of(name) == kind and often.mean > 0) for kind in SPLIT
}
"""The subkinds that occur, for each kind that has several."""


@dataclass(frozen=True)
class Styles:
    """The 33 organisations at one scale; every array has one row per organisation."""

    seed: int
    size: Array
    private_rate: Array
    in_use: Array
    private: Array
    modules: Array
    roles: Array
    mobile: Array
    shares: Array
    bias: Array
    subkinds: dict[str, Array]

    def name_actions(self, who: Array, random: np.random.Generator) -> NameActions:
        """The function that names the actions of flows; ``who`` is the organisation of each flow."""

        def name(flows: Array) -> tuple[Array, Array]:
            mine = who[flows]
            place = random.random(len(flows))
            platform = (place * PLATFORM_TOKENS).astype(np.int64)
            private = PLATFORM_TOKENS + self.private[mine, (place**SKEW * self.in_use[mine]).astype(np.int64)]
            token = np.where(random.random(len(flows)) < self.private_rate[mine], private, platform)
            return token, self.roles[mine, token]

        return name


@lru_cache(maxsize=4)
def styles(seed: int, largest: int) -> Styles:
    """The organisations of one seed; the largest holds ``largest`` points."""
    size = np.array([scaled_size(points, largest) for points in SIZES])
    rate = np.array([PRIVATE_RATE[group(points)] for points in SIZES])
    in_use = (size // POINTS_PER_TOKEN).clip(FEWEST_TOKENS, PRIVATE_TOKENS)
    theme, member = np.divmod(np.arange(PLATFORM_TOKENS), PLATFORM_TOKENS // THEMES)
    platform = theme * PER_THEME + member % PER_THEME
    own = [numpy_generator(seed, "private tokens", i) for i in range(len(SIZES))]
    private = np.stack([random.permutation(PRIVATE_TOKENS) for random in own])
    modules = np.stack([random.permutation(PRIVATE_MODULES)[:THEMES] for random in own])
    roles = np.stack([np.append(platform, random.integers(0, ROLES, PRIVATE_TOKENS)) for random in own])
    mobile, shares = _shares(seed)
    return _fit_biases(Styles(seed, size, rate, in_use, private, modules, roles, mobile, shares, np.log(shares), {}))


def _shares(seed: int) -> tuple[Array, Array]:
    """Which organisations are mobile, and each one's share of every kind, with the mean and deviation of table B.1."""
    random = numpy_generator(seed, "shares of kinds")
    mean, std = np.array([(KINDS[kind].mean, KINDS[kind].std) for kind in TARGETS]).T / 100
    web = np.setdiff1d(np.arange(len(SIZES)), NEW_ACTION)
    mobile = np.isin(np.arange(len(SIZES)), random.permutation(web)[:MOBILE])
    platform = (mobile - mobile.mean()) / mobile.std()
    z = random.normal(size=(len(SIZES), len(TARGETS)))
    branching, ending = TARGETS.index("If"), TARGETS.index("End")
    z[:, ending] = (z[:, ending] + z[:, branching]) / 2**0.5  # more branches have more ends, or flows never end
    for kind, pull in MOBILE_PULL.items():
        c = TARGETS.index(kind)
        z[:, c] = pull * platform + (1 - pull**2) ** 0.5 * z[:, c]
    width = np.sqrt(np.log1p((std / mean) ** 2))
    shares = mean * np.exp(width * z - width**2 / 2)
    client = TARGETS.index("ExecuteClientAction")
    for _ in range(50):
        shares = mean + (shares - shares.mean(0)) * std / shares.std(0, ddof=1)
        shares = shares.clip(min=0.05 * mean)
        shares[NEW_ACTION, client] = NEW_ACTION_SHARE
        shares /= shares.sum(1, keepdims=True)
    return mobile, shares


def _fit_biases(plain: Styles) -> Styles:
    """The same organisations with biases that give their flows the intended shares."""
    shared, bias = grammar(plain.seed), plain.bias.copy()
    who = np.repeat(np.arange(len(SIZES)), FITTING_FLOWS)
    eager = np.where(
        np.isin(TARGETS, "End"), 2.2, 1.7
    )  # near-certain choices hardly respond to a bias, and ends shorten flows
    for trial in range(FITTING_ROUNDS):
        random = numpy_generator(plain.seed, "fitting", trial)
        types = random.integers(0, len(TYPES), len(who))
        grown = grow(shared, bias[who], types, plain.name_actions(who, random), random)
        counts = grown.expected.reshape(len(SIZES), FITTING_FLOWS, -1).sum(1)
        found = counts / counts.sum(1, keepdims=True)
        step = min(1.0, 4 / (trial + 1)) * eager  # later trials only average out chance
        bias += step * np.log(plain.shares / found.clip(min=1e-9)).clip(-2, 2)
    return replace(plain, bias=bias, subkinds=_subkinds(plain.seed, grown))


def _subkinds(seed: int, sample: GrownFlows) -> dict[str, Array]:
    """Probabilities of the subkinds of each split kind: organisations × roles × subkinds.

    Their mean over organisations is that of table B.2, with roles as frequent before a kind as in a sample of flows.
    """
    chances = {}
    before = np.take_along_axis(sample.role, sample.parent.astype(np.int64), 1)
    for number, (kind, names) in enumerate(NAMED.items()):
        shape = (ROLES, len(names))
        scores = numpy_generator(seed, "subkinds", number).normal(0, SUBKIND_ROLE, shape) + np.stack(
            [numpy_generator(seed, "subkinds", number, i).normal(0, SUBKIND_OWN, shape) for i in range(len(SIZES))]
        )
        aim = np.array([SUBKINDS[name].mean for name in names])
        aim /= aim.sum()
        often = np.bincount(before[sample.kind == TARGETS.index(kind)], minlength=ROLES) + 1.0
        bias = np.log(aim)
        for _ in range(20):
            found = np.exp(scores + bias)
            found /= found.sum(-1, keepdims=True)
            bias += np.log(aim / np.average(found.mean(0), axis=0, weights=often))
        chances[kind] = found
    return chances
