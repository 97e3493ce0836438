"""Record the frames of kazoo and of Apache's clients with Apache's server, for ``tests/golden/metadata``.

    python -m tests.oracle.metadata.record

It needs Java with javac. A proxy stands between the clients and a server of its own, whose session ids and times the
frames have. BookKeeper's shell is recorded where Apache's distribution is at hand.
"""

import asyncio
import contextlib
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.security import make_digest_acl

from engine.metadata.kazoo.kazoo_requests import EndWatches, MultiRead
from engine.metadata.server.codec import EVENT_XID, decode_connect, decode_request
from engine.metadata.server.jute import INT
from engine.metadata.server.protocol import Op
from tests.bench.contenders import apache_missing
from tests.oracle.ledgers_java import HOME
from tests.oracle.metadata.compare import real_server
from tests.support.zookeeper.client_codec import (
    decode_connect_answer,
    decode_event,
    decode_reply,
    op_of,
    xid_of,
)
from tests.support.zookeeper.process import find_java, jars

GOLDEN = Path(__file__).parents[2] / "golden" / "metadata" / "zookeeper_frames.jsonl"
DRIVER = Path(__file__).parents[1] / "java" / "ZooKeeperDriver.java"
ALIKE_MAX = 2
"""Exchanges kept of one client, operation and code."""
SHELL = """\
create /z
create -s /z/s data
create -e /z/e data
create -c /z/c
create -t 86400000 /z/t data
stat -w /z
get -s /z/e
set -s /z newdata
ls /
ls -s -w /z
getAcl -s /z
addauth digest user:secret
setAcl /z/s auth:user:secret:cdrwa
getAcl /z/s
whoami
getEphemerals
getAllChildrenNumber /z
sync /z
addWatch -m PERSISTENT_RECURSIVE /z
create /z/fires
removewatches /z
delete /z/fires
deleteall /z
quit
"""


@dataclass
class Recorded:
    """Frames of one connection in the order in which the proxy passed them on; True is the client's side."""

    frames: list[tuple[bool, bytes]] = field(default_factory=list)


class Proxy:
    """Passes connections on to the server and keeps their frames."""

    def __init__(self, server_port: int) -> None:
        self.connections: list[Recorded] = []
        self.port = 0
        self._server_port = server_port
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Cut every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._server_port)
        recorded = Recorded()
        self.connections.append(recorded)
        self._writers |= {writer, there[1]}
        await asyncio.gather(
            self._copy(reader, there[1], recorded, client=True),
            self._copy(there[0], writer, recorded, client=False),
        )

    async def _copy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        recorded: Recorded,
        *,
        client: bool,
    ) -> None:
        try:
            while True:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(INT.unpack(size)[0])
                recorded.frames.append((client, frame))
                writer.write(size + frame)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            self._writers.discard(writer)


def kazoo_session(port: int) -> None:
    """Do what kazoo can, with the requests that the store adds to it."""
    client = KazooClient(f"127.0.0.1:{port}", timeout=10)
    client.start()
    client.create("/k", b"")
    client.create("/k/e", b"1", ephemeral=True)
    client.create("/k/s-", b"2", sequence=True, include_data=True)
    client.create("/k/es-", b"2", ephemeral=True, sequence=True)
    client.exists("/k/none", watch=print)
    client.exists("/k", watch=print)
    client.get("/k", watch=print)
    client.set("/k", b"3")
    client.get_children("/k", watch=print)
    client.get_children("/k", include_data=True)
    client.create("/k/none", b"")
    client.delete("/k/none")
    client.sync("/k")
    for call in (
        lambda: client.get("/none"),
        lambda: client.set("/k", b"", 9),
        lambda: client.delete("/k"),
    ):
        try:
            call()
        except KazooException:
            continue
        raise AssertionError("no failure")
    client.add_auth("digest", "user:secret")
    client.set_acls("/k/e", [make_digest_acl("user", "secret", all=True)])
    client.get_acls("/k/e")
    _kazoo_transactions(client)
    client.get("/k", watch=print)
    _ask(client, EndWatches(client, "/k"))
    with contextlib.suppress(KazooException):
        _ask(client, EndWatches(client, "/k/e"))
    _ask(client, MultiRead(["/k", "/none"], "/k"))
    client.stop()
    client.close()


def _kazoo_transactions(client: KazooClient) -> None:
    for version in (0, 9):
        transaction = client.transaction()
        transaction.create("/k/t", b"t")
        transaction.set_data("/k/t", b"u")
        transaction.check("/k/t", version + 1)
        transaction.delete("/k/t")
        transaction.commit()


def _ask(client: KazooClient, request: Any) -> Any:
    result = client.handler.async_result()
    client._call(request, result)
    return result.get()


def compile_driver(directory: Path) -> None:
    subprocess.run(["javac", "-cp", jars(), "-d", str(directory), str(DRIVER)], check=True)


async def java_session(proxy: Proxy, directory: Path) -> None:
    """Run the driver; cut its connections when it says so."""
    process = await asyncio.create_subprocess_exec(
        *(find_java() or "java", "-cp", f"{directory}:{jars()}", "ZooKeeperDriver"),
        f"127.0.0.1:{proxy.port}",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    async for line in process.stdout:
        if line.strip() == b"CUT":
            proxy.cut()
            process.stdin.write(b"\n")
    assert await process.wait() == 0


async def shell_session(proxy: Proxy) -> None:
    """Give commands to zkCli."""
    process = await asyncio.create_subprocess_exec(
        *(find_java() or "java", "-cp", jars(), "org.apache.zookeeper.ZooKeeperMain"),
        *("-waitforconnection", "-server", f"127.0.0.1:{proxy.port}"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await process.communicate(SHELL.encode())


async def bookkeeper_session(proxy: Proxy, directory: Path) -> None:
    """Format a cluster and list its bookies with BookKeeper's shell."""
    distribution = next(HOME.glob("apache-pulsar-*"))
    conf = directory / "bookkeeper.conf"
    conf.write_text(
        f"metadataServiceUri=zk+hierarchical://127.0.0.1:{proxy.port}/ledgers\nzkServers=127.0.0.1:{proxy.port}\n"
    )
    for words in (
        ("initnewcluster",),
        ("metaformat", "-n", "-f"),
        ("listbookies", "-rw"),
        ("whatisinstanceid",),
        ("listledgers",),
    ):
        process = await asyncio.create_subprocess_exec(
            *(find_java() or "java", "-Xmx256m", "-cp", f"{distribution}/lib/*"),
            *("org.apache.bookkeeper.bookie.BookieShell", "-conf", str(conf), *words),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await process.wait()


def rows(client: str, connections: list[Recorded]) -> Iterator[dict[str, str]]:
    """Yield the exchanges and events of a client, without those that are like others."""
    kinds: Counter[tuple[Any, ...]] = Counter()
    for recorded in connections:
        for row in _connection_rows(recorded):
            event_type = row["answer_value"].split(",")[0] if row["op"] == "EVENT" else ""
            kind = (row["op"], row.get("code"), event_type, len(row["answer"]) > 200)
            kinds[kind] += 1
            if kinds[kind] <= ALIKE_MAX:
                yield {"client": client, **row}


def _connection_rows(recorded: Recorded) -> Iterator[dict[str, str]]:
    asked: dict[int, list[bytes]] = {}
    first = True
    for from_client, frame in recorded.frames:
        if from_client:
            key = 0 if not asked else xid_of(frame)
            asked.setdefault(key, []).append(frame)
        elif first:
            first = False
            yield _row(
                "CONNECT", asked[0].pop(0), decode_connect, frame, decode_connect_answer(frame)
            )
        elif xid_of(frame) == EVENT_XID:
            yield {"op": "EVENT", "answer": frame.hex(), "answer_value": repr(decode_event(frame))}
        else:
            request = asked[xid_of(frame)].pop(0)
            yield _exchange_row(request, frame)


def _row(op: str, request: bytes, decode: Any, answer: bytes, answer_value: Any) -> dict[str, str]:
    return {
        "op": op,
        "request": request.hex(),
        "value": repr(decode(request)),
        "answer": answer.hex(),
        "answer_value": repr(answer_value),
    }


def _exchange_row(request: bytes, answer: bytes) -> dict[str, str]:
    _, value = decode_request(request)
    reply = decode_reply(answer, value)
    row = _row(op_of(value).name, request, lambda _: value, answer, reply)
    return row | {"code": repr(reply.code)}


async def record() -> list[dict[str, str]]:
    """Return the rows of all clients."""
    out: list[dict[str, str]] = []
    with real_server() as port, tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        compile_driver(work)

        async def recorded(client: str, session: Any) -> None:
            proxy = Proxy(port)
            await proxy.start()
            await session(proxy)
            out.extend(rows(client, proxy.connections))

        await recorded("kazoo", lambda proxy: asyncio.to_thread(kazoo_session, proxy.port))
        await recorded("java", lambda proxy: java_session(proxy, work))
        await recorded("zkCli", shell_session)
        if apache_missing() is None:
            await recorded("bookkeeper", lambda proxy: bookkeeper_session(proxy, work))
    return out


def main() -> None:
    out = asyncio.run(record())
    GOLDEN.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in out))
    missing = {op.name for op in Op} - {row["op"] for row in out}
    print(f"{len(out)} rows, without {sorted(missing)}")


if __name__ == "__main__":
    main()
