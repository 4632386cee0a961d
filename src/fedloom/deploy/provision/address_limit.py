"""A limit on connections per address before any TLS handshake: nginx's stream module in front of its HTTP part.

A stranger needs no certificate to begin handshakes, and the HTTP part of nginx counts connections only after them. The
stream module counts when a connection opens. It passes on what it accepts over a Unix socket, with the address of the
sender in front (the PROXY protocol), so that logs keep their addresses.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

SOCKET = "proxy/accepted.sock"
"""Where the HTTP part takes accepted connections; relative to the server's folder, in which nginx is started."""
ZONE = "addresses"

_STREAM = """
# Connections by address, counted before their TLS handshake.
stream {
    limit_conn_zone $binary_remote_addr zone=@ZONE@:1m;
    server {
        listen @LISTEN@;
        limit_conn @ZONE@ @MOST@;
        proxy_protocol on;
        proxy_pass unix:@SOCKET@;
    }
}
"""
_FROM_STREAM = f"""unix:{SOCKET} ssl proxy_protocol;
        set_real_ip_from unix:;
        real_ip_header proxy_protocol"""


def load_stream() -> str | None:
    """The line with which this machine's nginx loads its stream module: empty if built in, None if it has none."""
    try:
        built = subprocess.run(["nginx", "-V"], capture_output=True, text=True, check=True).stderr  # noqa: S607
    except (OSError, subprocess.CalledProcessError):
        return None
    if "--with-http_realip_module" not in built:
        return None
    if re.search(r"--with-stream(\s|$)", built):
        return ""
    folder = re.search(r"--modules-path=(\S+)", built)
    module = Path(folder[1] if folder else "modules") / "ngx_stream_module.so"
    return f"load_module {module};\n" if "--with-stream=dynamic" in built and module.is_file() else None


def limit_addresses(listen: str, most: int) -> str:
    """The part of ``nginx.conf`` that accepts connections.

    Args:
        listen: The address and port to listen on.
        most: How many connections an address may have at once.
    """
    text = _STREAM.replace("@LISTEN@", listen).replace("@MOST@", str(most))
    return text.replace("@ZONE@", ZONE).replace("@SOCKET@", SOCKET)


def listen_behind(listen: str, limited: bool) -> str:
    """Where the HTTP part of nginx listens, with the end of its ``listen`` line.

    Args:
        listen: The address and port of the server.
        limited: Whether :func:`limit_addresses` stands in front.
    """
    return _FROM_STREAM if limited else f"{listen} ssl"
