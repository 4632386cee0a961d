"""The SuperLink's control API, for the user who runs it: register nodes, list nodes, start and stop a run."""

from __future__ import annotations

from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.deploy.flower.local_socket import HOST, LINK_SOCKET, client_class, connection_errors
from fedloom.deploy.flower.release import VERSION
from fedloom.deploy.flower.server_transport import NodeInfo, node_infos


class SuperLinkControl:
    """The control API of the SuperLink of a server's folder."""

    def __init__(self, folder: Path) -> None:
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

        kind = client_class(ControlHttpClient, folder.resolve() / LINK_SOCKET)
        passes = [RuntimeVersionHttpInterceptor(component_name="flwr CLI")]
        self.client = kind.from_server_address(HOST, False, (folder / "ca.crt").read_bytes(), passes)

    def register(self, key: bytes) -> None:
        """Admit the node with this public key."""
        from flwr.proto.control_pb2 import RegisterNodeRequest

        self.client.RegisterNode(RegisterNodeRequest(public_key=key))

    def unregister(self, node: int) -> None:
        """Remove a node: its calls are refused from now on."""
        from flwr.proto.control_pb2 import UnregisterNodeRequest

        self.client.UnregisterNode(UnregisterNodeRequest(node_id=node))

    def nodes(self) -> list[NodeInfo]:
        """All registered nodes."""
        from flwr.proto.control_pb2 import ListNodesRequest

        return node_infos(self.client.ListNodes(ListNodesRequest()).nodes_info)

    def start(self, app: Path) -> str:
        """Start a run of an app; its number."""
        import hashlib

        from flwr.cli.build import build_fab_from_disk
        from flwr.common.serde import fab_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        content = build_fab_from_disk(app)
        fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
        try:
            started = self.client.StartRun(StartRunRequest(fab=fab_to_proto(fab)))
        except connection_errors() as why:
            raise FedloomError(f"Flower did not accept the run: {' '.join(str(why).split())[:300]}") from None
        return str(started.run_id)

    def stop(self, run_id: str) -> None:
        """Stop a run."""
        from flwr.proto.control_pb2 import StopRunRequest

        self.client.StopRun(StopRunRequest(run_id=int(run_id)))


def write_app(home: Path, folder: Path) -> Path:
    """Write the Flower app of a run, which only imports our server and client apps; its folder.

    Args:
        home: Where the app's folder is made.
        folder: The server's folder.
    """
    app = home / "app"
    (app / "fedloom_app").mkdir(parents=True, exist_ok=True)
    (app / "fedloom_app" / "__init__.py").write_text("")
    for half in ("server", "client"):
        (app / "fedloom_app" / f"{half}.py").write_text(
            f"from fedloom.deploy.flower.server_half import {half}_app\n\napp = {half}_app()\n"
        )
    (app / "pyproject.toml").write_text(
        '[project]\nname = "fedloom-app"\nversion = "1.0.0"\ndescription = "A Fedloom run"\nlicense = "Apache-2.0"\n'
        f'dependencies = ["flwr=={VERSION}"]\n\n[tool.flwr.app]\npublisher = "fedloom"\n\n'
        '[tool.flwr.app.components]\nserverapp = "fedloom_app.server:app"\nclientapp = "fedloom_app.client:app"\n\n'
        f"[tool.flwr.app.config]\nfolder = '{folder.resolve()}'\n"
    )
    return app


def public_key(public: Path) -> bytes:
    """The public key in a site's file, in the format in which the SuperLink lists it."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

    try:
        key = load_ssh_public_key(public.read_bytes())
    except (OSError, ValueError):
        raise FedloomError(f"{public} is not the public key of a site: copy it again.") from None
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
