"""All contact with Flower: its programs, its messages, and what we change in them.

Flower 1.41's SuperLink and SuperNodes carry bytes; their format is ours (``protocol/wire.py``). Nothing outside this
room imports flwr, and its tests test what we rely on, so a new release can break this room only.

* ``superlink.py`` runs the SuperLink: everything on a Unix socket of its owner, and only nodes' calls on a port.
* ``server_half.py`` runs the server's half of a run, Flower's ServerApp; ``server_transport.py`` is its way to sites.
* ``supernode.py`` runs a SuperNode with ``isolation=process``: it starts no Python process per call. The site's own
  process takes messages from the SuperNode's runtime API on a Unix socket (``site_transport.py``) with Flower's own
  client. The app bundle that Flower sends to nodes is never unpacked or run at a site.
* ``control.py`` registers nodes and starts and stops runs.
"""
