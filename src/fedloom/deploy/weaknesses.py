"""What a plan of a deployment may leave open: one question each, for ``fedloom deploy audit``.

Each function looks at one thing and says what could happen and what to set. What it judges by is what ``deploy
explain`` shows and what server and site enforce: the composition of the run, the server's settings, the site's policy.
That nothing is found says no more than that these questions have answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedloom.aggregation.mean import Mean
from fedloom.aggregation.norm_bounding import NormBounding
from fedloom.core.errors import FedloomError
from fedloom.deploy.participant_folder import APPROVER_FILE, SERVER_FILE, SITE_FILE
from fedloom.deploy.protocol.blueprint import CONFIG, Blueprint
from fedloom.deploy.settings import PolicySettings, ServerSettings, SiteSettings, refuse_other_participant
from fedloom.registry.code_consent import code_places
from fedloom.registry.validation import read_toml
from fedloom.rounds.composition import Composition
from fedloom.secure.secure_sum import MaskedSum

Severity = Literal["high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low")
FEW = 5
"""Of so few sites a sum still says a lot about each, and most robust rules withstand nobody."""
WEAK_NOISE = 0.3
"""Below such a noise multiplier, noise promises next to nothing."""


@dataclass(frozen=True)
class Weakness:
    """Something that a plan leaves open.

    Args:
        severity: How bad it is if it happens.
        what: What is so.
        could: What could happen.
        advice: What to set, or to do.
    """

    severity: Severity
    what: str
    could: str
    advice: str


@dataclass(frozen=True)
class Plan:
    """The plan of a deployment as a participant has it.

    Args:
        run: What the run is made of.
        server: The server's settings; None at a site.
        site: The site's settings; None at the server.
    """

    folder: Path
    blueprint: Blueprint
    run: Composition
    server: ServerSettings | None
    site: SiteSettings | None

    @property
    def sites(self) -> int:
        """How many sites train."""
        return len(self.blueprint.sites)

    @property
    def has_noise(self) -> bool:
        """Whether sites add noise before anything leaves them."""
        return self.blueprint.config.clients_add_noise


def _single_updates(plan: Plan) -> Iterator[Weakness]:
    """Whether anybody at the server sees a site's own update."""
    if plan.run.sums is None and not plan.has_noise:
        yield Weakness(
            "high",
            "the server sees every site's update as it is",
            "its operator, or whoever takes the server over, can rebuild training samples of single sites from it, and "
            "more of them by sending a model that was made for that",
            'set channel = ["securesum"], or noise at the sites (sample_privacy, localnoise), and make the plan again',
        )
    elif plan.run.sums is not None and not plan.has_noise:
        few = plan.sites < FEW
        yield Weakness(
            "medium" if few else "low",
            f"sums over {plan.sites} sites hide whose an update is, and no noise is in them",
            "part of the samples can be rebuilt from a sum, though nobody can say whose they are"
            + (", and with so few sites that is a guess among few" if few else ""),
            "set privatesum in the place of securesum, or sample_privacy",
        )


def _sums(plan: Plan) -> Iterator[Weakness]:
    """Whether a sum is as large as it looks."""
    for step in plan.run.steps:
        if isinstance(step, MaskedSum) and step.colluders == 0:
            yield Weakness(
                "medium",
                "sums hide a site only as long as no other site helps the server (colluders = 0)",
                "a server that invents or persuades the other sites of a sum reads what is left: one site's update",
                "set colluders to the share of sites that may help the server",
            )
        if isinstance(step, MaskedSum) and step.least_clients <= 2 < plan.sites:
            yield Weakness(
                "medium",
                f"a sum of {step.least_clients} of the {plan.sites} sites is still answered (least_clients)",
                "each of the two knows the other's update from the sum, and so does a server that one of them helps",
                f"set least_clients, for instance to {max(3, plan.sites // 2 + 1)}",
            )


def _noise(plan: Plan) -> Iterator[Weakness]:
    """Whether the noise promises something, and for how long."""
    config = plan.blueprint.config
    parts = [*([config.sample_privacy] if config.sample_privacy else []), *config.channel]
    for part in parts:
        multiplier = getattr(part, "multiplier", None) if hasattr(part, "seeded") else None
        if multiplier is None:
            continue
        name = type(part).__name__.lower()
        if part.seeded:
            yield Weakness(
                "high",
                f"the noise of {name} is drawn from the seed of the plan (seeded = true)",
                "whoever has the plan, and the server has it, takes the noise away again",
                "leave out seeded",
            )
        if multiplier < WEAK_NOISE:
            yield Weakness(
                "medium",
                f"the noise of {name} is weak (a multiplier of {multiplier:g})",
                "its epsilon is so large that it promises next to nothing",
                "ask fedloom privacy how much noise a small epsilon takes",
            )
        if part.epsilon is None:
            yield Weakness(
                "low",
                f"the noise of {name} has no budget",
                "every new run of the plan spends more, and nothing ends it",
                "set epsilon, at which sites stop by themselves",
            )


def _rules(plan: Plan) -> Iterator[Weakness]:
    """Whether a site can ruin the model."""
    rule = plan.blueprint.config.aggregation
    if plan.run.sums is not None or plan.run.privacy is not None:
        yield Weakness(
            "medium",
            "nobody can compare single updates",
            "a site that sends a plausible lie, or a backdoor, is not found",
            "choose with care who takes part; a bound on each update (the clip of privatesum) limits what one can do",
        )
    elif isinstance(rule, Mean):
        yield Weakness(
            "medium",
            "replies are averaged, and no rule withstands hostile sites",
            "one site can make the model wrong or plant a backdoor, as far as the server's limits on sizes let it",
            'set aggregation, for instance to "trimmedmean" or "normbounding"',
        )
    elif not isinstance(rule, NormBounding) and plan.sites < FEW:
        yield Weakness(
            "low",
            f"with {plan.sites} sites a rule withstands few hostile ones or none",
            "what the rule promises holds for more sites",
            "see the table of what each rule needs (docs, Trust)",
        )


def _scores(plan: Plan) -> Iterator[Weakness]:
    """Whether numbers about a site's data leave it beside its updates."""
    kept = plan.site is not None and not plan.site.policy.evaluation
    if plan.run.eval_every and not plan.has_noise and not kept:
        yield Weakness(
            "low",
            "losses and scores of each site's data are sent to the server, also beside sums",
            "they say how well the model knows a site's samples, which helps to tell who was in the training",
            "set eval_every = 0, or evaluation = false in a site's policy",
        )
    if plan.server is not None and plan.server.cross_site:
        yield Weakness(
            "medium",
            "every site's model is sent to every other site at the end (cross_site)",
            "whoever has a site's own model can tell more about its samples than from the shared one",
            "leave out cross_site",
        )


def _server_limits(plan: Plan) -> Iterator[Weakness]:
    """Whether the server's settings hold what a run needs."""
    settings = plan.server
    if settings is None:
        return
    if settings.min_clients < 2 <= plan.sites and plan.run.sums is None:
        yield Weakness(
            "medium",
            "a round counts with one site's answer (min_clients = 1)",
            "the shared model is then that site's model, and all others get it",
            f"set min_clients in {SERVER_FILE}, for instance to {plan.sites // 2 + 1}",
        )
    if settings.max_share == 1 and plan.run.weight_by == "samples" and plan.sites > 2:
        yield Weakness(
            "low",
            "a site counts with as many samples as it says (max_share = 1)",
            "a site that claims many decides most of the model",
            f"set max_share or sizes in {SERVER_FILE}",
        )
    if not settings.proxy:
        yield Weakness(
            "medium",
            "sites reach the server without the proxy that asks for their certificates (proxy = false)",
            "whoever reaches the port can try what only Flower's own keys then prevent",
            f"set proxy = true in {SERVER_FILE}, except for trials on one machine",
        )


def _approval(plan: Plan) -> Iterator[Weakness]:
    """Whether somebody besides the operator has a say."""
    if not (plan.folder / APPROVER_FILE).is_file():
        yield Weakness(
            "low",
            "the operator alone decides that a new run begins",
            "each new run of the plan says more about the same data",
            "make the deployment with --approver, or set new_runs in the sites' policies",
        )


def _policy(plan: Plan) -> Iterator[Weakness]:
    """Whether a site asks for what protects it, whatever plan it is given."""
    if plan.site is None:
        return
    policy, usual = plan.site.policy, PolicySettings()
    if not policy.channel and (plan.run.sums is not None or plan.has_noise):
        yield Weakness(
            "medium",
            "the site's policy does not ask for the protection that the plan has",
            "a later plan without it would be followed too",
            f"name the step under [[policy.channel]] in {SITE_FILE}",
        )
    if policy.new_runs >= usual.new_runs and policy.rounds is None:
        yield Weakness(
            "low",
            f"the site takes part in {policy.new_runs} more runs of the same plan",
            "each of them says more about the same data",
            f"set new_runs or rounds under [policy] in {SITE_FILE}",
        )
    if policy.model:
        yield Weakness(
            "medium",
            "the model that the site predicts with may leave it (model = true)",
            "it can be fitted to the site's samples, and tells more about them than the shared one",
            f"set model = false under [policy] in {SITE_FILE}",
        )
    if plan.site.data.rehearsal:
        yield Weakness(
            "low",
            "the site works on its share of the run file's data (rehearsal = true)",
            "nothing of the site's own is trained on",
            f"set path under [data] in {SITE_FILE}",
        )


def _code_and_versions(plan: Plan) -> Iterator[Weakness]:
    """Whether code comes with the plan, and whether it was made for this version."""
    names = [Path(place).name for place in code_places(read_toml(plan.folder / CONFIG))]
    if names:
        yield Weakness(
            "medium",
            f"the plan brings code of its own: {', '.join(names)}",
            "it is executed at every participant, with the participant's data at hand",
            "read it before you trust it",
        )
    try:
        refuse_other_participant(plan.folder)
    except FedloomError as reason:
        yield Weakness("high", "the folder is of another version", str(reason), "make the deployment again")


QUESTIONS: tuple[Callable[[Plan], Iterator[Weakness]], ...] = (
    _single_updates,
    _sums,
    _noise,
    _rules,
    _scores,
    _server_limits,
    _policy,
    _approval,
    _code_and_versions,
)
"""What is asked of a plan; a new question is one function."""
