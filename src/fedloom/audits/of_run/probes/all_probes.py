"""What the audit of a run plays: one entry for each probe, the most important first. To add one, add an entry.

An entry says who attacks and what they get, in words for somebody who knows no attack by name, which number it is read
by, how bad that number is, and plays itself (``play``). Whatever cannot be played on a run raises a ``FedloomError``,
whose sentence is listed as the reason. A registered attack without an entry is played as its base class says: a server
that rebuilds samples, or clients who ruin the model.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedloom.attacks.reconstruction.server_attack import ServerAttack
from fedloom.audits.of_run.play.subject import RunSize
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.differences import cost_of_differences, membership_by_differences
from fedloom.audits.of_run.probes.inversion import invert_classes
from fedloom.audits.of_run.probes.membership import (
    MOST,
    SHADOWS,
    VICTIMS,
    beyond_chance,
    membership_of_model,
    membership_of_update,
)
from fedloom.audits.of_run.probes.membership_over_rounds import SECONDS, cost_over_rounds, membership_over_rounds
from fedloom.audits.of_run.probes.poisoning import loss, one_replacement, poison, takeover
from fedloom.audits.of_run.probes.probe import AuditProbe, Measure, ProbeOutcome, clip, share
from fedloom.audits.of_run.probes.rebuilding import rebuild
from fedloom.audits.of_run.probes.stated_privacy import beyond_stated, canary_epsilon
from fedloom.audits.of_run.probes.vocabulary_of_update import beyond_usual, vocabulary_of_update
from fedloom.core.errors import FedloomError
from fedloom.registry.kinds import ATTACKS

LOOKING, LYING = "The server, which only looks,", "A server that changes the model it sends"
ANYBODY, FIFTH = "Whoever gets the model", "A fifth of the clients"
REBUILT = "of these clients' training samples are rebuilt recognisably"
TOLD = "is the AUC of telling training samples from others: 0.5 is guessing, 1 is certainty"
LOST = "of the score is lost"


def play_plain(trial: Trial) -> ProbeOutcome:
    """The run without an attack: what it scores and costs."""
    played = trial.plain
    if played.diverged or played.score is None:
        raise FedloomError(played.diverged or "the run scores no model: set task.test_share.")
    measures, guess = {"score": Measure(played.score)}, trial.subject.guess(played, trial.seed)
    measures |= {} if guess is None else {"guess": Measure(guess)}
    measures |= {way: Measure(played.total(way)) for way in ("bytes_up", "bytes_down", "bytes_between")}
    epsilon = [value for name, value in played.metrics.items() if name.startswith("privacy/") and "epsilon" in name]
    return ProbeOutcome(measures | ({"epsilon": Measure(max(epsilon))} if epsilon else {}))


def _of_classes(found: Mapping[str, Measure]) -> float:
    """A class is nobody's sample, so that even all of them are less than one sample in a hundred."""
    chance = found["chance"].value
    return 0.09 * clip((found["classes"].value - chance) / (1 - chance))


def one_round(_: RunSize) -> float:
    """The cost of what is over after the first round."""
    return 1.0


PLAIN = AuditProbe("no attack", "cost", "", "", "score", "is what the model scores", play_plain, lambda _: 0.0)

PROBES: tuple[AuditProbe, ...] = (
    AuditProbe(
        *("linearleak", "leak", LOOKING, "reads training samples out of the update of the first layer", "rebuilt"),
        *(REBUILT, rebuild("linearleak", most=3), share("rebuilt"), "share", one_round),
        attack="linearleak",
    ),
    AuditProbe(
        *("trapweights", "leak", LYING, "makes clients send an update that it can read samples out of", "rebuilt"),
        *(REBUILT, rebuild("trapweights", most=3), share("rebuilt"), "share", one_round),
        attack="trapweights",
    ),
    AuditProbe(
        *("membership over rounds", "leak", LOOKING, "tells whether somebody's sample was trained on, by all updates"),
        *("auc", TOLD, membership_over_rounds, beyond_chance),
        unit="auc",
        cost=cost_over_rounds,
        seconds=SECONDS,
    ),
    AuditProbe(
        *(
            "vocabulary of an update",
            "leak",
            LOOKING,
            "lists the actions, modules or words that somebody uses",
            "named",
        ),
        "of such a list and of what is really used agree",
        *(vocabulary_of_update, beyond_usual, "share", one_round),
    ),
    AuditProbe(
        *("difference of sums", "leak", LOOKING, "tells whether somebody's sample was trained on, by subtracting sums"),
        *("auc", TOLD, membership_by_differences, beyond_chance),
        unit="auc",
        cost=cost_of_differences,
    ),
    AuditProbe(
        *("membership of an update", "leak", LOOKING, "tells whether somebody's sample was trained on, by an update"),
        *("auc", TOLD, membership_of_update, beyond_chance),
        unit="auc",
        cost=lambda size: size.rounds + VICTIMS * SHADOWS / size.clients,
        runs=1 + VICTIMS * SHADOWS,
    ),
    AuditProbe(
        *("backdoor", "break", "One hostile client", "teaches the model to answer a secret sign as it wants"),
        *("gained", "of the images are answered as the attacker wants only because they show the sign"),
        *(poison("backdoor", one_replacement), takeover),
        attack="backdoor",
    ),
    AuditProbe(
        *("labelflipping", "break", FIFTH, "with swapped labels make the model wrong", "lost", LOST),
        *(poison("labelflipping"), loss),
        attack="labelflipping",
    ),
    AuditProbe(
        *("signflipping", "break", FIFTH, "with reversed updates make the model wrong", "lost", LOST),
        *(poison("signflipping"), loss),
        attack="signflipping",
    ),
    AuditProbe(
        *("membership of the model", "leak", ANYBODY, "tells whether somebody's sample was trained on", "auc"),
        *(TOLD, membership_of_model, beyond_chance),
        unit="auc",
        cost=lambda size: SHADOWS * size.rounds * min(1.0, 2 * MOST / size.samples),
        runs=SHADOWS,
    ),
    AuditProbe(
        *("alie", "break", FIFTH, "who agree on small lies make the model wrong", "lost", LOST),
        *(poison("alie"), loss),
        attack="alie",
    ),
    AuditProbe(
        *("classfishing", "leak", LYING, "makes clients send an update of one class alone", "rebuilt"),
        *(REBUILT, rebuild("classfishing", most=3), share("rebuilt"), "share", one_round),
        attack="classfishing",
    ),
    AuditProbe(
        *("gradientinversion", "leak", LOOKING, "searches for images that explain an update", "rebuilt", REBUILT),
        *(rebuild("gradientinversion", iterations=100), share("rebuilt"), "share"),
        cost=lambda _: 10.0,
        seconds=5.0,
        attack="gradientinversion",
    ),
    AuditProbe(
        *("class inversion", "leak", ANYBODY, "sees what the samples of a class have in common", "classes"),
        "of classes are shown so that their picture is most like the mean of their own class",
        *(invert_classes, _of_classes),
        cost=lambda _: 0.0,
        seconds=5.0,
    ),
    AuditProbe(
        *("canary", "leak", "Whoever sees what leaves a client", "tells a planted sample from its noise", "epsilon"),
        *("is the least epsilon that trials with canaries leave possible", canary_epsilon, beyond_stated),
        unit="epsilon",
        cost=lambda _: 0.0,
        seconds=2.0,
    ),
    *(
        AuditProbe(name, "break", FIFTH, f"{words} make the model wrong", "lost", LOST, poison(name), loss, attack=name)
        for name, words in {
            "ipm": "who send the opposite of the mean",
            "minmax": "who send what is worst and still looks honest, by the largest distance,",
            "minsum": "who send what is worst and still looks honest, by the sum of distances,",
            "sybils": "who have swapped labels and speak with one voice",
            "gaussiannoise": "who send noise",
            "freerider": "who send back what they got",
        }.items()
    ),
    AuditProbe(
        *("gan, as poison", "break", FIFTH, "who make pictures of a class and misname them make the model wrong"),
        *("lost", LOST, poison("gan", lambda _: {"variant": "original"}), loss),
        cost=lambda size: 3.0 * size.rounds,
    ),
)


def _unplayable(name: str, who: str, what: str, reason: str, attack: str = "") -> AuditProbe:
    """An attack that an audit cannot play by itself, so that nobody takes it for not found."""

    def refuse(_: Trial) -> ProbeOutcome:
        raise FedloomError(reason)

    nothing = ("", "", refuse, lambda _: 0.0)
    return AuditProbe(name, "leak", who, what, *nothing, cost=lambda _: 0.0, runs=0, attack=attack)


LISTED: tuple[AuditProbe, ...] = (
    _unplayable(
        *("property inference", LOOKING, "learns what a client's samples have in common"),
        "somebody has to name the property, and give the server samples with it and without: property_scores of "
        "the Attacks page does it.",
    ),
    _unplayable(
        *("attribute inference", ANYBODY, "guesses a sensitive column of a known record"),
        "somebody has to name the sensitive column: attribute_inference of the Attacks page does it.",
    ),
    _unplayable(
        *("reconstruction of one client", LOOKING, "makes images of each class as one client has them, by a GAN"),
        "how near images are to a client's says something only where clients' images of a class differ, which "
        "somebody has to judge: rebuild_client of the Attacks page does it.",
    ),
    _unplayable(
        *("gan", "One client", "learns to make images from the models that it gets"),
        "what the generator makes stays with the client, and a run has no number of it: generators_of_run of "
        "the Attacks page has the images.",
        "gan",
    ),
)


def all_probes() -> tuple[AuditProbe, ...]:
    """The entries, every other registered attack, and what is only listed."""
    known = {probe.attack for probe in (*PROBES, *LISTED)}
    return (*PROBES, *(_registered_probe(name) for name in ATTACKS if name not in known), *LISTED)


def _registered_probe(name: str) -> AuditProbe:
    """The probe of an attack that has no entry."""
    if issubclass(ATTACKS[name], ServerAttack):
        found = ("The server", "rebuilds training samples of clients", "rebuilt", REBUILT)
        return AuditProbe(name, "leak", *found, rebuild(name), share("rebuilt"), "share", one_round, attack=name)
    what = f"with the attack {name} make the model wrong"
    return AuditProbe(name, "break", FIFTH, what, "lost", LOST, poison(name), loss, attack=name)
