"""The audit of a deployment's plan: ``fedloom deploy audit`` reads a participant's folder, and no data."""

from __future__ import annotations

from pathlib import Path

from fedloom.config.trusted_code import TrustedCode
from fedloom.deploy.explanation_text import plan_without_data
from fedloom.deploy.participant_folder import SERVER_FILE, SITE_FILE
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.settings import load_server, load_site
from fedloom.deploy.weaknesses import QUESTIONS, SEVERITIES, Plan, Weakness
from fedloom.registry.code_consent import trust_only


def find_weaknesses(folder: Path, trusted: tuple[str, ...] = ()) -> list[Weakness]:
    """What the plan in a participant's folder leaves open, the worst first; no data are read.

    Args:
        folder: The folder of the server or of a site.
        trusted: Files of own code that may run, if the plan names some.
    """
    code = TrustedCode(files=trusted)
    with trust_only(code.places, str(folder)):
        server = load_server(folder) if (folder / SERVER_FILE).is_file() else None
        site = load_site(folder) if (folder / SITE_FILE).is_file() else None
        blueprint = Blueprint.load(folder, code)
        run = plan_without_data(blueprint).composition
    plan = Plan(folder, blueprint, run, server, site)
    found = [one for look in QUESTIONS for one in look(plan)]
    return sorted(found, key=lambda one: SEVERITIES.index(one.severity))
