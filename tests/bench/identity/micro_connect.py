"""CPU of a connection and its first producer, with tokens and rights against without.

``python -m tests.bench.identity.micro_connect [--connections 1000] [--rounds 5]``. Broker, bookie and client are one
process, and the client does the same on both sides, so that the difference is the broker's. Every connection presents
another token, and none is remembered from an earlier one.
"""

import argparse
import base64
import socket
import statistics
import tempfile
import time
from itertools import count
from pathlib import Path

from engine.base.names import TopicName
from engine.tenancy import grants
from engine.wire import client_commands
from tests.support.access.callers import KEY, token
from tests.support.broker_bench import commands_in
from tests.support.standalone import Standalone

TOPIC = TopicName.parse("persistent://public/default/connects")
RIGHTS = {
    "authentication_enabled": "true",
    "authentication_providers": "token",
    "token_secret_key": base64.b64encode(KEY).decode(),
    "authorization_enabled": "true",
    "super_user_roles": "root",
    "broker_client_authentication_plugin": "token",
    "broker_client_authentication_parameters": f"token:{token('root')}",
}
NUMBERS = count()


def exchange(peer: socket.socket, frame: bytes, kind: str) -> None:
    """Send a frame and read until a command of this type."""
    peer.sendall(frame)
    received = b""
    while True:
        received += peer.recv(65536)
        size = int.from_bytes(received[:4], "big") + 4
        if len(received) >= size:
            assert any(command.HasField(kind) for command in commands_in(received[:size])), kind
            return


def connect(port: int, frame: bytes) -> None:
    """Connect, log in, look up a topic and create a producer."""
    with socket.create_connection(("127.0.0.1", port)) as peer:
        exchange(peer, frame, "connected")
        exchange(peer, client_commands.lookup(TOPIC.full, 1), "lookupTopicResponse")
        exchange(peer, client_commands.producer(TOPIC.full, 1, 2), "producer_success")


def measured(side: Standalone, connections: int, *, by_token: bool) -> float:
    """Return the CPU of a connection in milliseconds."""
    frames = [
        client_commands.connect(
            "bench",
            auth_method_name="token" if by_token else None,
            auth_data=token("app", jti=next(NUMBERS)).encode() if by_token else None,
        )
        for _ in range(connections)
    ]
    before = time.process_time()
    for frame in frames:
        connect(side.port, frame)
    return (time.process_time() - before) * 1000 / connections


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        open_side = Standalone(Path(folder, "open"))
        judging = Standalone(Path(folder, "judging"), **RIGHTS)
        judging.run(grants.grant(judging.store, TOPIC.namespace, "app", ["produce"]))
        sides = ((open_side, False), (judging, True))
        figures = [
            [measured(side, given.connections, by_token=by_token) for side, by_token in sides]
            for _ in range(given.rounds + 1)
        ]
        for side, _ in sides:
            side.close()
    # The first round warms up.
    without, with_token = (statistics.median(column) for column in zip(*figures[1:], strict=True))
    print(f"without {without:.3f} ms, with token and rights {with_token:.3f} ms a connection")
    print(f"difference {with_token - without:+.3f} ms")


if __name__ == "__main__":
    main()
