"""``fedloom deploy add``, ``revoke`` and ``renew``."""

from __future__ import annotations

from support.command_line import refusal


def test_certificates_are_warned_of_for_a_month_and_renewed_by_a_command(deploy, fedloom):
    assert fedloom("renew", deploy, "--days", "30").returncode == 0
    for folder in ("server", "north"):
        assert "expires on 20" in (text := fedloom("status", deploy / folder).stdout)
        assert ", in 29 days: " in text
    renewed = fedloom("renew", deploy)
    assert f"north: {deploy / 'server/renewed/north'}/{{client.pem,ca.crt,signature.json}}" in renewed.stdout
    assert "The server uses its new certificate when it is started." in renewed.stdout
    assert "certificates: valid for 364 more days" in fedloom("status", deploy / "server").stdout


def test_a_site_is_revoked_and_added_again_by_commands(deploy, fedloom, tmp_path):
    assert fedloom("revoke", "north", deploy).stdout.startswith("north is revoked: the server refuses it when it is")
    assert "  north: revoked at 20" in fedloom("status", deploy / "server").stdout
    (deploy / "north").rename(tmp_path / "old")
    added = fedloom("add", "north", deploy).stdout
    assert "Give the folder to north alone. It takes part from the next round on." in added
    assert "  north: not connected" in fedloom("status", deploy / "server").stdout
    assert "there is no site 'x'" in refusal(fedloom("revoke", "x", deploy))
