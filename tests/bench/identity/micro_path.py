"""Cost of publish and dispatch per entry: with authentication and rights, without, and at an earlier revision.

``python -m tests.bench.identity.micro_path [--revision REVISION] [--slices 200]``. A process for each side has broker,
bookie and client, which does the same on all sides: it publishes 50 entries of 100 B at a time, receives their receipts
and the messages, and acknowledges each. The sides work by turns, a slice of some 20 ms each, so that other load meets
all of them alike. Figures are CPU (the median of the slices, of all of the process), and calls of functions in the
broker's and bookie's loop, which do not depend on other load.
"""

import argparse
import base64
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from engine.base.ids import Position
from engine.wire import client_commands
from engine.wire import pulsar_pb2 as pb
from tests.support.raw_client import entry_of
from tests.support.standalone import Standalone

ROOT = Path(__file__).parents[3]
SIDES = ("open", "identified", "judging")
"""Kinds of clients: without credentials; with a token; with a token and rights."""
TOPIC = "persistent://public/default/path"
WINDOW = 50
MEMORY = "/dev/shm"
"""Folder whose syncs take no time, where there is one."""
WARM_SLICES = 10
RECEIPT, MESSAGE = pb.BaseCommand.SEND_RECEIPT, pb.BaseCommand.MESSAGE
WINDOWS = 20
"""Windows of a slice."""


class Peer:
    """A connection on a blocking socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._received = b""

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def commands(self, *counts: tuple[int, int]) -> list[bytes]:
        """Return the received commands of these types, once so many of each have arrived; others are dropped."""
        missing, taken = dict(counts), []
        while any(missing.values()):
            while len(self._received) < 4 or len(self._received) < self._end():
                self._received += self._socket.recv(1 << 16)
            end = self._end()
            size = int.from_bytes(self._received[4:8], "big")
            command, self._received = self._received[8 : 8 + size], self._received[end:]
            kind = command[1]  # the type is the first field
            assert kind != pb.BaseCommand.ERROR, command
            if kind in missing:
                missing[kind] -= 1
                taken.append(command)
        return taken

    def _end(self) -> int:
        return 4 + int.from_bytes(self._received[:4], "big")

    def ask(self, frame: bytes, kind: int) -> None:
        self.send(frame)
        self.commands((kind, 1))


def rights(side: str) -> dict[str, str]:
    """Return the broker's settings. The earlier revision has no module of tokens, and no side that needs it."""
    if side == "open":
        return {}
    from tests.support.access.callers import KEY, token

    return {
        "authentication_enabled": "true",
        "authentication_providers": "token",
        "token_secret_key": base64.b64encode(KEY).decode(),
        "authorization_enabled": "true" if side == "judging" else "false",
        "super_user_roles": "root",
        "broker_client_authentication_plugin": "token",
        "broker_client_authentication_parameters": f"token:{token('root')}",
    }


def login(side: str, instance: Standalone) -> dict[str, Any]:
    if side == "open":
        return {}
    from engine.base.names import NamespaceName
    from engine.tenancy import grants
    from tests.support.access.callers import token

    namespace = NamespaceName.parse("public/default")
    instance.run(grants.grant(instance.store, namespace, "app", ["produce", "consume"]))
    return {"auth_method_name": "token", "auth_data": token("app").encode()}


def opened(port: int, shown: dict[str, Any]) -> Peer:
    peer = Peer(port)
    peer.ask(client_commands.connect("bench", **shown), pb.BaseCommand.CONNECTED)
    peer.ask(client_commands.lookup(TOPIC, 3), pb.BaseCommand.LOOKUP_RESPONSE)
    peer.ask(client_commands.producer(TOPIC, 1, 1), pb.BaseCommand.PRODUCER_SUCCESS)
    shared = pb.CommandSubscribe.Shared
    peer.ask(client_commands.subscribe(TOPIC, "s", shared, 1, 2), pb.BaseCommand.SUCCESS)
    peer.send(client_commands.flow(1, 1_000_000))
    return peer


def work(peer: Peer, windows: Sequence[bytes]) -> None:
    for frames in windows:
        peer.send(frames)
        acks = []
        for data in peer.commands((RECEIPT, WINDOW), (MESSAGE, WINDOW)):
            if data[1] == MESSAGE:
                identity = pb.BaseCommand.FromString(data).message.message_id
                position = Position(identity.ledgerId, identity.entryId)
                acks.append(client_commands.ack(1, [position]))
        peer.send(b"".join(acks))


class Calls:
    """Counts the calls of functions on an instance's loop."""

    def __init__(self, instance: Standalone) -> None:
        self._instance = instance
        self.count = 0

    def __enter__(self) -> "Calls":
        self.count = 0
        self._instance.run(self._profile(self._event))
        return self

    def __exit__(self, *_: object) -> None:
        self._instance.run(self._profile(None))

    async def _profile(self, profile: Any) -> None:
        sys.setprofile(profile)

    def _event(self, frame: Any, event: str, argument: Any) -> None:
        self.count += event in ("call", "c_call")


def serve(side: str) -> None:
    """Do a slice for each line of the standard input, and print its figure per entry: ``cpu``, in µs, or ``calls``."""
    entry = entry_of(b"x" * 100)
    numbers = itertools.count()
    with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None) as folder:
        instance = Standalone(Path(folder), **rights(side))
        peer = opened(instance.port, login(side, instance))
        calls = Calls(instance)
        print("ready", flush=True)
        for line in sys.stdin:
            frames = [
                b"".join(client_commands.send(1, next(numbers), entry) for _ in range(WINDOW))
                for _ in range(WINDOWS)
            ]
            if line.strip() == "calls":
                with calls:
                    work(peer, frames)
                figure = float(calls.count)
            else:
                before = time.process_time()
                work(peer, frames)
                figure = (time.process_time() - before) * 1e6
            print(figure / (WINDOW * WINDOWS), flush=True)
        instance.close()


class Side:
    """A side's process."""

    def __init__(self, side: str, tree: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--side", side],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._figures = self._process.stdin, self._process.stdout
        assert self._figures.readline().strip() == "ready"

    def slice(self, figure: str) -> float:
        self._orders.write(f"{figure}\n")
        self._orders.flush()
        return float(self._figures.readline())

    def close(self) -> None:
        self._orders.close()
        self._process.wait(60)


@contextmanager
def tree_of(revision: str) -> Iterator[Path]:
    """Return a folder with the files of a revision, for the length of the block."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        add = ["git", "worktree", "add", "--detach", "--quiet", str(tree), revision]
        subprocess.run(add, cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            remove = ["git", "worktree", "remove", "--force", str(tree)]
            subprocess.run(remove, cwd=ROOT, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--revision", help="an earlier revision, which is measured without rights")
    parser.add_argument("--slices", type=int, default=200)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        serve(given.side)
        return
    with ExitStack() as stack:
        sides = {side: Side(side, ROOT) for side in SIDES}
        if given.revision:
            tree = stack.enter_context(tree_of(given.revision))
            sides[given.revision] = Side("open", tree)
        for side in sides.values():
            stack.callback(side.close)
        figures: dict[str, dict[str, float]] = {name: {} for name in sides}
        for figure, slices in (("cpu", given.slices), ("calls", 10)):
            measured: dict[str, list[float]] = {name: [] for name in sides}
            for number in range(WARM_SLICES + slices):
                for name in (*sides,) if number % 2 else reversed([*sides]):
                    measured[name].append(sides[name].slice(figure))
            for name, values in measured.items():
                figures[name][figure] = median(values[WARM_SLICES:])
    for name, of_side in figures.items():
        cpu, calls = of_side["cpu"], of_side["calls"]
        of_open = figures["open"]
        print(
            f"{name}: {cpu:.2f} µs of CPU per entry ({cpu / of_open['cpu']:.3f} of open), "
            f"{calls:.2f} calls ({calls / of_open['calls']:.3f})"
        )


if __name__ == "__main__":
    main()
