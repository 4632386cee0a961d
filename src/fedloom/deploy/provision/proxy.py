"""The reverse proxy between sites and the SuperLink: the text of an ``nginx.conf``.

Sites connect to this proxy, and the SuperLink listens on loopback. The proxy requires a certificate of the
deployment's authority and passes on only the calls of nodes (Flower's path ``/v1/fleet/``), without dots, escapes or
queries. It adds a secret to each call, without which the SuperLink answers nobody on that port
(``flower/superlink.py``).

``nginx -p FOLDER -c nginx.conf -g 'daemon off;'``, started in ``FOLDER``, runs it, as root or not; it writes only below
``FOLDER/proxy``.
"""

from __future__ import annotations

import ipaddress
import math
import os
import resource
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from fedloom.deploy.members import revocations
from fedloom.deploy.participant_folder import FLOWER, make_private, read_json
from fedloom.deploy.provision.address_limit import limit_addresses, listen_behind, load_stream
from fedloom.deploy.settings import ServerSettings
from fedloom.files.atomic_write import write_private

CONFIG, FOLDER = "nginx.conf", "proxy"
"""The proxy's configuration, and the folder for its pid, logs and temporary files."""
ACCESS_LOG, ERROR_LOG, PID = f"{FOLDER}/access.log", f"{FOLDER}/error.log", f"{FOLDER}/nginx.pid"
RECEPTION_PATH, RECEPTION = "/v1/site", "flower/reception.json"
"""Where sites ask about themselves, and the file of port and secret with which the server answers
(``operate/reception.py``)."""
SECRET, SECRET_HEADER = f"{FLOWER}/proxy.secret", "X-Fedloom-Proxy"
"""The file of the secret that the proxy and the SuperLink share, and the header in which the proxy sends it."""
BURST, CONNECTIONS = 5, 32
"""Seconds' worth of calls that a site may make at once, and the connections that it may have."""
ALL_CONNECTIONS = 16_384
"""Connections of everybody together, as far as the machine allows so many files. Before its handshake has ended, nginx
cannot tell a connection of a site from one of a stranger: there is room for many, and each has little time."""
HANDSHAKE = 10
"""Seconds for a TLS handshake, and for the head of a call."""
PARTS = 8
"""Parts of its answers that a site may send at once. A SuperNode sends two; those of one that was killed may still be
open."""
OVERHEAD = 1.05
"""The factor by which Flower's envelope may enlarge a message; a megabyte is added to that."""

_TEMPLATE = """\
# Written by fedloom deploy init from deploy.toml.
# Start it with:  cd THIS_FOLDER && nginx -p $PWD -c nginx.conf -g 'daemon off;'
@LOAD_STREAM@@USER@worker_processes 1;
worker_shutdown_timeout 5s;  # open connections end with the settings that they were opened under
pid @PID@;
worker_rlimit_nofile @FILES@;
error_log @ERROR_LOG@ info;  # it has the addresses whose handshakes do not end

events {
    worker_connections @ALL_CONNECTIONS@;
}
@STREAM@
http {
    server_tokens off;

    # The name in a site's certificate, if this deployment's authority signed it.
    map "$ssl_client_verify $ssl_client_s_dn" $site {
        default "-";
        "~^SUCCESS CN=(?<name>[A-Za-z0-9._-]+)$" $name;
    }
    # Certificates that fedloom deploy revoke refuses, by serial number.
    map $ssl_client_serial $revoked {
        default 0;
        @REVOKED@
    }
    log_format sites '$time_iso8601 site=$site certificate="$ssl_client_verify" from=$remote_addr '
                     '"$request" $status in=$request_length out=$bytes_sent seconds=$request_time';
    access_log @ACCESS_LOG@ sites;

    # What one site may ask for, by the name in its certificate, so that it does not disturb the others.
    limit_req_zone $site zone=calls:1m rate=@CALLS@r/s;
    limit_conn_zone $site zone=connections:1m;
    limit_conn_zone $site zone=parts:1m;
    limit_req_status 429;
    limit_conn_status 429;

    client_body_temp_path @FOLDER@/body;
    proxy_temp_path @FOLDER@/passing;
    fastcgi_temp_path @FOLDER@/unused;
    uwsgi_temp_path @FOLDER@/unused;
    scgi_temp_path @FOLDER@/unused;

    upstream superlink {
        server 127.0.0.1:@CONTROL_PORT@;
        keepalive 32;
        keepalive_timeout 3s;  # the SuperLink itself hangs up after 5
    }

    server {
        listen @LISTEN@;

        ssl_certificate server.pem;
        ssl_certificate_key server.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_client_certificate ca.crt;
        ssl_verify_client on;
        ssl_verify_depth 1;

        limit_req zone=calls burst=@BURST@ nodelay;
        limit_conn connections @CONNECTIONS@;
        client_max_body_size 1m;
        client_header_timeout @HANDSHAKE@s;  # also of the TLS handshake
        client_body_timeout 60s;
        send_timeout 60s;
        keepalive_timeout 120s;
        keepalive_requests 100000;

        # Why a certificate is refused, for the site's own screen.
        error_page 495 496 =400 @certificate;
        location @certificate {
            default_type text/plain;
            return 400 "fedloom: $ssl_client_verify\n";
        }
        if ($revoked) {
            return 410 "fedloom: revoked\n";
        }

        # One path, written plainly. What has to be decoded or tidied up first is not a call of Flower's.
        if ($request_uri !~ "^/v1/(fleet/[a-z-]+|site)$") {
            return 404;
        }

        # Only the operator registers and removes nodes.
        location = /v1/fleet/register-node { return 403; }
        location = /v1/fleet/unregister-node { return 403; }

        # Why a site may not join, which Flower does not say.
        location = @RECEPTION_PATH@ {
            limit_except POST { deny all; }
            client_max_body_size 64k;
            proxy_pass http://127.0.0.1:@RECEPTION_PORT@;
            proxy_set_header X-Secret "@RECEPTION_SECRET@";
            proxy_set_header X-Site-Name $site;
            proxy_set_header X-Site-Serial $ssl_client_serial;
            proxy_set_header X-Site-Address $remote_addr;
        }

        location /v1/fleet/ {
            limit_except POST { deny all; }
            proxy_pass https://superlink;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header @SECRET_HEADER@ "@SECRET@";
            proxy_ssl_verify on;
            proxy_ssl_trusted_certificate ca.crt;
            proxy_ssl_name localhost;
            proxy_ssl_protocols TLSv1.2 TLSv1.3;
            proxy_connect_timeout 10s;
            proxy_send_timeout 60s;
            proxy_read_timeout 120s;

            # Messages pass through memory and never lie on this disk.
            proxy_request_buffering off;
            proxy_max_temp_file_size 0;

            # The parts of an answer, which the SuperLink's memory holds until they are whole.
            location = /v1/fleet/push-object {
                limit_except POST { deny all; }
                client_max_body_size @MEGABYTES@m;
                limit_conn connections @CONNECTIONS@;
                limit_conn parts @PARTS@;
                proxy_pass https://superlink;
            }
        }

        location / { return 404; }
    }
}
"""


def proxy_secret(folder: Path) -> str:
    """The secret that the proxy and the SuperLink of a server's folder share; made the first time."""
    path = make_private(folder / FLOWER) / Path(SECRET).name
    if not path.exists():
        write_private(path, secrets.token_hex(32).encode())
    return path.read_text()


def write_proxy_config(folder: Path, settings: ServerSettings) -> None:
    """Write ``nginx.conf`` with its secrets, so that only its owner can read it."""
    make_private(folder / FOLDER)
    revoked, reception = [one.serial for one in revocations(folder)], read_json(folder / RECEPTION)
    text = nginx_config(settings, proxy_secret(folder), revoked, reception, load_stream())
    write_private(folder / CONFIG, text.encode())


def _user_line() -> str:
    """nginx that root starts gives its work to `nobody`, whose other processes could read its memory: not here."""
    return "user root root;\n" if os.geteuid() == 0 else ""


def _open_files() -> int:
    """The files that nginx may have open: as many as it needs, or as this machine allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2 * ALL_CONNECTIONS if most == resource.RLIM_INFINITY else min(2 * ALL_CONNECTIONS, most)


def connections_of_address(settings: ServerSettings) -> int:
    """How many connections an address may have: those of all sites, which may share one."""
    return CONNECTIONS * len(settings.everyone)


def nginx_config(
    settings: ServerSettings,
    secret: str = "",
    revoked: Sequence[str] = (),
    reception: Mapping[str, object] = MappingProxyType({}),
    stream: str | None = None,
) -> str:
    """The text of ``nginx.conf``; paths are relative to the server's folder.

    Args:
        secret: What the SuperLink knows the proxy's calls by.
        revoked: The serial numbers of revoked certificates.
        reception: The port and the secret of the server's reception, if it is open.
        stream: The line that loads nginx's stream module (:func:`load_stream`); None if there is none, and connections
            are not limited by their address.
    """
    files, listen = _open_files(), listen_on(settings.host, settings.port)
    values = {
        "ACCESS_LOG": ACCESS_LOG,
        "ALL_CONNECTIONS": str(files // 2),  # a call that is passed on needs a second one
        "BURST": str(BURST * settings.max_calls),
        "CALLS": str(settings.max_calls),
        "CONNECTIONS": str(CONNECTIONS),
        "CONTROL_PORT": str(settings.control_port),
        "ERROR_LOG": ERROR_LOG,
        "FILES": str(files),
        "FOLDER": FOLDER,
        "HANDSHAKE": str(HANDSHAKE),
        "LISTEN": listen_behind(listen, stream is not None),
        "LOAD_STREAM": stream or "",
        "STREAM": "" if stream is None else limit_addresses(listen, connections_of_address(settings)),
        "USER": _user_line(),
        "MEGABYTES": str(math.ceil(settings.max_megabytes * OVERHEAD) + 1),
        "PARTS": str(PARTS),
        "PID": PID,
        "RECEPTION_PATH": RECEPTION_PATH,
        "RECEPTION_PORT": str(reception.get("port", 1)),
        "RECEPTION_SECRET": str(reception.get("secret", "")),
        "REVOKED": "\n        ".join(f'"{serial}" 1;' for serial in revoked),
        "SECRET": secret,
        "SECRET_HEADER": SECRET_HEADER,
    }
    text = _TEMPLATE
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def listen_on(host: str, port: int) -> str:
    """The address to listen on: loopback if the host is loopback, every address otherwise."""
    if host == "localhost":
        return f"127.0.0.1:{port}"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(port)
    if address.version == 6:
        return f"[{address if address.is_loopback else '::'}]:{port}"
    return f"{address}:{port}" if address.is_loopback else str(port)
