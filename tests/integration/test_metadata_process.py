"""A real metadata server on real files: answered writes and sessions survive kill -9, SIGTERM ends it with status 0."""

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.metadata.server.protocol import (
    ConnectAnswer,
    CreateMode,
    Data,
    ErrorCode,
    Exists,
    GetData,
    Multi,
    SetData,
)
from engine.net.network import LoopNetwork
from tests.support.ports import free_ports
from tests.support.waiting import until
from tests.support.zookeeper.metadata_rig import create
from tests.support.zookeeper.seam_client import SeamClient

ROOT = Path(__file__).parents[2]
KILLS = 8


class MetadataProcess:
    """The program on one folder and port."""

    def __init__(self, folder: Path, **variables: str) -> None:
        (self.port,) = free_ports(1)
        self.folder = folder
        self.log = folder.with_suffix(".log")
        self._variables = {
            f"MAGNETAR_METADATA_SERVER_{name}": text for name, text in variables.items()
        }
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> subprocess.Popen[bytes]:
        arguments = ["metadata", "--data-dir", str(self.folder), "--port", str(self.port)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "engine", *arguments],
                cwd=ROOT,
                stderr=log,
                env={"PATH": "/usr/bin:/bin", **self._variables},
            )
        return self.process

    async def connect(self, **options: object) -> SeamClient:
        """Return a connection as soon as the server accepts one."""
        clients: list[SeamClient] = []

        async def tried() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            try:
                clients.append(await SeamClient.open(LoopNetwork(), self.port, **options))  # type: ignore[arg-type]
            except OSError:
                return False
            return True

        await until(tried, "the server does not accept connections")
        return clients[-1]

    async def ended(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return await asyncio.to_thread(self.process.wait)


@pytest.fixture
def server(tmp_path: Path):  # type: ignore[no-untyped-def]
    server = MetadataProcess(tmp_path / "md", SNAPSHOT_LOG_BYTES="20000")
    yield server
    if server.process is not None and server.process.poll() is None:
        server.process.kill()
        server.process.wait()


async def test_answered_writes_and_sessions_survive_kills_at_random_points(
    server: MetadataProcess,
) -> None:
    # Two nodes change together by multi; the server is killed in the middle of hundreds of them, again and again.
    draw = random.Random(5)
    session: ConnectAnswer | None = None
    answered, zxid = 0, 0
    for round_ in range(KILLS):
        server.launch()
        client = await server.connect(session=session, last_zxid=zxid)
        if session is None:
            await client.ask(create("/a", b"0"))
            await client.ask(create("/b", b"0"))
            await client.ask(create("/e", b"", CreateMode.EPHEMERAL))
            session = client.session
        assert client.session == session
        values = [await client.ask(GetData(path, False)) for path in ("/a", "/b")]
        first, second = (int(value.data or b"") for value in values if isinstance(value, Data))
        assert first == second >= answered, f"round {round_}"
        assert await client.code(Exists("/e", False)) == ErrorCode.OK
        answered = first
        stop_at = answered + draw.randrange(5, 150)
        while answered < stop_at:
            sent = [
                client.send(Multi((SetData("/a", b"%d" % n, -1), SetData("/b", b"%d" % n, -1))))
                for n in range(answered + 1, answered + 1 + draw.randrange(1, 20))
            ]
            for reply in sent:
                assert (await reply).code == ErrorCode.OK
                answered += 1
                if answered == stop_at:
                    break
        assert await server.ended(signal.SIGKILL) == -signal.SIGKILL
        zxid = client.last_zxid


async def test_sigterm_ends_it_with_status_0_and_the_folder_is_private(
    server: MetadataProcess,
) -> None:
    server.launch()
    client = await server.connect()
    await client.ask(create("/a"))
    second = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "engine", "metadata", "--data-dir", str(server.folder)],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 1
    assert "another process uses the folder" in second.stderr
    assert await server.ended(signal.SIGTERM) == 0
    assert server.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in server.folder.iterdir()} == {0o600}
    assert "one node, no replication" in server.log.read_text()


async def test_a_damaged_log_refuses_the_start_in_one_line(server: MetadataProcess) -> None:
    server.launch()
    client = await server.connect()
    for i in range(4):
        await client.ask(create(f"/{i}"))
    await server.ended(signal.SIGKILL)
    segment = server.folder / "log-0000000001"
    content = bytearray(segment.read_bytes())
    content[content.index(b"/1")] ^= 1
    segment.write_bytes(content)
    earlier = len(server.log.read_text())
    assert server.launch().wait() == 1
    (line,) = server.log.read_text()[earlier:].splitlines()
    assert "cannot start" in line
    assert f"{segment} is damaged at byte" in line
    assert "restore" in line
