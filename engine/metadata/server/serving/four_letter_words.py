"""Four-letter words: short reports in text for operators, in place of a first request."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

WORD_BYTES = 4
VERSION = "3.9.0-magnetar"
"""Version that clients read from reports: that of the protocol."""


class ConnectionFigures(NamedTuple):
    peer: str
    session_id: int
    """0 before the connection has a session."""
    waiting_bytes: int


class ServerFigures(NamedTuple):
    """State of the server. ``zxid``: of the last durable transaction. Sizes in bytes, ``uptime`` in milliseconds."""

    failed: bool
    writable: bool
    received: int
    sent: int
    connections: Sequence[ConnectionFigures]
    refused: int
    outstanding: int
    zxid: int
    nodes: int
    ephemerals: int
    data_bytes: int
    sessions: int
    watches: int
    data_watches: tuple[int, int, int]
    """Clients, paths and watches."""
    uptime: int
    syncs: int
    log_bytes: int
    snapshot_bytes: int
    configuration: Mapping[str, object]


def _ruok(server: ServerFigures) -> str:
    return "" if server.failed else "imok"


def _isro(server: ServerFigures) -> str:
    return "rw" if server.writable else "ro"


def _srvr(server: ServerFigures) -> str:
    return _lines([f"Zookeeper version: {VERSION}", *_summary(server)])


def _stat(server: ServerFigures) -> str:
    clients = [
        f" /{peer}[1](queued={waiting},session=0x{session_id:x})"
        for peer, session_id, waiting in server.connections
    ]
    return _lines([f"Zookeeper version: {VERSION}", "Clients:", *clients, "", *_summary(server)])


def _summary(server: ServerFigures) -> list[str]:
    return [
        f"Received: {server.received}",
        f"Sent: {server.sent}",
        f"Connections: {len(server.connections)}",
        f"Outstanding: {server.outstanding}",
        f"Zxid: 0x{server.zxid:x}",
        f"Mode: {_mode(server)}",
        f"Node count: {server.nodes}",
    ]


def _mode(server: ServerFigures) -> str:
    return "standalone" if server.writable else "read-only"


def _mntr(server: ServerFigures) -> str:
    figures: dict[str, object] = {
        "version": VERSION,
        "server_state": _mode(server),
        "packets_received": server.received,
        "packets_sent": server.sent,
        "num_alive_connections": len(server.connections),
        "outstanding_requests": server.outstanding,
        "znode_count": server.nodes,
        "watch_count": server.watches,
        "ephemerals_count": server.ephemerals,
        "approximate_data_size": server.data_bytes,
        "global_sessions": server.sessions,
        "uptime": server.uptime,
        "read_only": int(not server.writable),
        "syncs": server.syncs,
        "log_bytes": server.log_bytes,
        "snapshot_bytes": server.snapshot_bytes,
        "connection_rejected": server.refused,
    }
    return _lines(f"zk_{name}\t{value}" for name, value in figures.items())


def _wchs(server: ServerFigures) -> str:
    clients, paths, watches = server.data_watches
    return _lines([f"{clients} connections watching {paths} paths", f"Total watches:{watches}"])


def _conf(server: ServerFigures) -> str:
    return _lines(f"{name}={value}" for name, value in server.configuration.items())


def _envi(server: ServerFigures) -> str:
    """Return what kazoo's ``server_version`` reads."""
    return _lines(["Environment:", f"zookeeper.version={VERSION}"])


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


WORDS: dict[bytes, Callable[[ServerFigures], str]] = {
    b"ruok": _ruok,
    b"isro": _isro,
    b"srvr": _srvr,
    b"stat": _stat,
    b"mntr": _mntr,
    b"wchs": _wchs,
    b"conf": _conf,
    b"envi": _envi,
}
