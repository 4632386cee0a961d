"""An attack without hostile clients: a server's own, and what a class inherits in words."""

import inspect
from dataclasses import dataclass

import pytest

import fedloom as fl
from fedloom.core.attack import CLIENT_HOOKS
from fedloom.core.errors import FedloomError


@dataclass(frozen=True)
class Watching(fl.Attack):
    """A server that counts.

    Args:
        least: From how many replies on it counts.
    """

    least: int = 1

    def look_at_replies(self, wave, replies):
        return {"replies": len(replies.ids)} if len(replies.ids) >= self.least else {}


def test_a_server_s_attack_has_no_hostile_clients_and_is_recorded():
    history = fl.run(fl.task("digits", clients=3), "fedavg", rounds=1, adversary=Watching())
    assert history.last("adversary/replies") == 3
    assert "hostile" not in history.records[0]
    assert Watching().members(range(9), 0) == frozenset()


@pytest.mark.parametrize("hook", CLIENT_HOOKS)
def test_what_only_hostile_clients_do_needs_hostile_clients(hook):
    server = type("Mixed", (fl.Attack,), {hook: lambda *_: None})
    with pytest.raises(FedloomError, match=r"Mixed acts by hostile clients, and an fl.Attack has none: subclass"):
        server()
    assert type("Clients", (fl.Adversary,), {hook: lambda *_: None})().clients_are_hostile


def test_an_attack_shows_the_settings_of_its_base_and_the_source_has_them_once():
    shown = inspect.getdoc(fl.SignFlipping)
    for name in ("clients", "fraction", "groups", "start", "stop", "scale"):
        assert f"    {name}: " in shown
    assert inspect.getsource(fl.SignFlipping).count("clients:") == 0
    assert inspect.getdoc(fl.LinearLeak).count("    victims: ") == 1
    assert "fraction" not in inspect.getdoc(fl.LinearLeak)
