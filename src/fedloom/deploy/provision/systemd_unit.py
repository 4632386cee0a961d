"""The systemd unit of a participant: it starts with the machine, restarts after a failure, writes only its folder."""

from __future__ import annotations

from typing import Literal

UNIT = "fedloom.service"
"""The unit's name in a participant's folder."""
HOME, PROGRAM = "/srv/fedloom/folder", "/srv/fedloom/venv/bin/fedloom"
"""Where the unit expects the participant's folder and the program; people edit both."""

Command = Literal["server", "client"]
"""What a participant's folder is started with: ``fedloom deploy server`` or ``fedloom deploy client``."""


def systemd_unit(command: Command) -> str:
    """The text of a participant's unit."""
    return f"""\
# The {"server" if command == "server" else "site"} of a Fedloom deployment, started with the machine. To install it:
#   1. make a user for it:           useradd --system --home-dir {HOME} fedloom
#   2. put this folder there:        {HOME}   (owned by that user)
#   3. and the program there:        {PROGRAM}
#      (other places: change the paths below)
#   4. cp {UNIT} /etc/systemd/system/ && systemctl enable --now fedloom
# Its messages are in the journal (journalctl -u fedloom); its data must be readable by the user.
[Unit]
Description=Fedloom {"server" if command == "server" else "site"}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
User=fedloom
WorkingDirectory={HOME}
ExecStart={PROGRAM} deploy {command} .
Restart=on-failure
RestartSec=60
KillMode=mixed
TimeoutStopSec=60

# It reads the system, writes its own folder, and nothing else.
ReadWritePaths={HOME}
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
SystemCallArchitectures=native
# A site that trains on a graphics card needs its devices: change this to no.
PrivateDevices=yes

[Install]
WantedBy=multi-user.target
"""
