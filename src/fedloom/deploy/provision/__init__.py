"""What ``fedloom deploy init`` writes and later commands change: folders, keys, certificates, the proxy's settings.

Import its modules inside functions: they need the extra ``deploy``.
"""

from __future__ import annotations

from importlib.util import find_spec

from fedloom.core.errors import FedloomError

if find_spec("cryptography") is None:
    raise FedloomError("deployment needs the packages flwr and cryptography: pip install 'fedloom[deploy]'.")
