"""The limits of a server in words: which of its sites' answers it refuses, and which count for less than they say.

``fedloom deploy explain`` says them, since a deployment with a limit that acts is not the simulated run any more.
"""

from __future__ import annotations

from fedloom.deploy.server.share_cap import PLAUSIBLE
from fedloom.deploy.settings import ServerSettings
from fedloom.rounds.composition import Composition


def limit_sentences(settings: ServerSettings, run: Composition) -> tuple[str, ...]:
    """What the server's settings limit in a run.

    Args:
        run: What the run is made of: a sum, or a private mean, lets nobody compare single updates.
    """
    return (*_size_sentences(settings, run), *_weight_sentences(settings))


def _size_sentences(settings: ServerSettings, run: Composition) -> list[str]:
    if run.hides_models:
        return ["models inside chains are not read, so none is compared, refused or clipped for its size"]
    if run.sums is not None or run.privacy is not None:
        return ["updates are not compared with each other, so none is refused or clipped for its size"]
    found = [
        f"an update more than {settings.max_ratio:g} times as large as usual is refused (max_ratio)",
        f"one that is {settings.clip_ratio:g} times as large, or moves {settings.clip_against:g} times the usual size "
        "against the other sites, counts with the usual size (clip_ratio, clip_against)",
    ]
    if settings.max_norm is not None:
        found.append(f"a model that is further than {settings.max_norm:g} from the one sent is refused (max_norm)")
    return found


def _weight_sentences(settings: ServerSettings) -> list[str]:
    found = [
        f"a claim of more than {PLAUSIBLE:,} times the median of the other sites' training samples counts as that "
        "median, unless [sizes] states the site's size"
    ]
    found += [
        f"{name} counts with {most:,} training samples at most ([sizes])" for name, most in settings.sizes.items()
    ]
    if settings.max_share < 1:
        found.append(
            f"a site counts with at most {100 * settings.max_share:g} % of all training samples (max_share); one that "
            "has more is not weighed as in the simulation"
        )
    else:
        found.append("otherwise a site counts with all of its training samples, as in the simulation (max_share = 1)")
    return found
