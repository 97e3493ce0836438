"""Clients of the metadata server as they are: they reconnect with their session, set their watches again, ping."""

import asyncio
import random
from dataclasses import dataclass

from engine.metadata.server.protocol import (
    OPEN_ACL,
    CloseSession,
    ConnectAnswer,
    Create,
    CreateMode,
    Delete,
    ErrorCode,
    Event,
    Exists,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    Op,
    Ping,
    Request,
    SetData,
    SetWatches,
    Stat,
    Sync,
)
from tests.sim.kit.cluster import Cluster
from tests.sim.kit.loop import Node
from tests.sim.kit.network import SimNetwork
from tests.sim.sessions.truth import Call, Truth, Watching
from tests.support.zookeeper.client_codec import Reply
from tests.support.zookeeper.seam_client import SeamClient

SERVER, PORT = "metadata-1", 2181
DATA = ("/d/0", "/d/1", "/d/2")
"""Nodes that are written and never deleted."""
PAIR = ("/m/a", "/m/b")
"""Nodes that are only written together."""
GONE = ("/g/0", "/g/1")
"""Nodes that are created and deleted."""
LARGE_BYTES = 60_000
PARENTS = ("/d", "/m", "/g", "/e", "/s")


def creation(path: str, data: bytes = b"", mode: int = CreateMode.PERSISTENT) -> Create:
    return Create(Op.CREATE, path, data, OPEN_ACL, mode)


@dataclass
class SimSession:
    """A session as its client knows it. ``proven_s``: when the last request that was answered was sent."""

    answer: ConnectAnswer
    watching: Watching
    proven_s: float
    last_zxid: int = 0
    closing: bool = False
    """True when its end was requested."""


class SessionUser:
    """One client: a process of its own that uses one session after another."""

    def __init__(self, cluster: Cluster, truth: Truth, name: str, timeout_ms: int) -> None:
        cluster.clients.append(name)
        self.name = name
        self.calm = False
        """True when no new work may begin."""
        self.over = False
        self._cluster = cluster
        self._loop = cluster.loop
        self._truth = truth
        self._timeout_ms = timeout_ms
        self._rng = random.Random(f"{cluster.loop.seed}/{name}")
        self._network = SimNetwork(cluster.world)
        self._session: SimSession | None = None
        self._client: SeamClient | None = None
        self._calls: dict[int, list[Call]] = {}
        self._sent = 0
        self.settled = False
        """True while nothing of this client is under way and all of its watches are set."""
        self.task: asyncio.Task[None] | None = None

    @property
    def session_id(self) -> int:
        return 0 if self._session is None else self._session.answer.session_id

    @property
    def watching(self) -> Watching | None:
        return None if self._session is None else self._session.watching

    def start(self) -> None:
        self.task = self._loop.spawn(Node(self.name), self._run())
        self.task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._cluster.failures.append(f"client {self.name}: {task.exception()!r}")

    async def _run(self) -> None:
        while not self.over:
            try:
                await self._connection()
            except (OSError, TimeoutError):
                self._cluster.count("client reconnects")
            finally:
                self.settled = False
                if self._client is not None:
                    self._client.close()
                    self._client = None
            await asyncio.sleep(self._rng.choice((0.005, 0.05, 0.5)))

    async def _connection(self) -> None:
        session, began_s = self._session, self._loop.now
        async with asyncio.timeout(2.0):
            self._client = client = await SeamClient.open(
                self._network,
                PORT,
                host=SERVER,
                timeout_ms=self._timeout_ms,
                session=None if session is None else session.answer,
                last_zxid=0 if session is None else session.last_zxid,
            )
        now = self._loop.now
        answer = client.session
        assert answer is not None
        if not answer.session_id:
            assert session is not None
            timeout_s = session.answer.timeout_ms / 1000
            proven_s = -timeout_s if session.closing else session.proven_s
            self._truth.expired(session.answer.session_id, proven_s, timeout_s, now)
            self._cluster.count("sessions expired")
            self._session = None
            return
        if session is None:
            session = SimSession(answer, Watching(self._truth, self.name), began_s)
            self._cluster.count("sessions")
        session.proven_s = max(session.proven_s, began_s)
        self._session = session
        self._calls = {}
        client.on_event = self._event
        client.on_reply = self._replied
        await self._set_watches(session)
        await self._use()

    async def _set_watches(self, session: SimSession) -> None:
        watched = session.watching.watched
        if watched:
            data = tuple(path for path, watch in watched.items() if not watch.existence)
            exist = tuple(path for path, watch in watched.items() if watch.existence)
            await self._done([self._send(SetWatches(session.last_zxid, data, exist, ()))])

    def _send(self, request: Request) -> "asyncio.Future[Reply]":
        assert self._client is not None
        call = self._truth.begin(self.session_id, request, self._loop.now)
        self._calls.setdefault(id(request), []).append(call)
        return self._client.send(request)

    def _replied(self, request: Request, reply: Reply) -> None:
        session = self._session
        calls = self._calls[id(request)]
        call = calls.pop(0)
        if session is None:
            return
        session.proven_s = max(session.proven_s, call.began_s)
        assert self._client is not None
        if reply.zxid < session.last_zxid:
            self._truth.wrong.append(
                f"Z6 {self.name} saw {reply.zxid:x} after {session.last_zxid:x}"
            )
        session.last_zxid = max(session.last_zxid, reply.zxid)
        self._truth.replied(call, reply, self.name, self._loop.now)
        session.watching.replied(request, reply)
        self._cluster.count("answers")

    def _event(self, event: Event) -> None:
        session = self._session
        if session is not None:
            session.last_zxid = max(session.last_zxid, event.zxid)
            session.watching.event(event)
            self._truth.event(event)
            self._cluster.count("events")

    async def _done(self, replies: "list[asyncio.Future[Reply]]") -> list[Reply]:
        """Wait for answers; a client that gets none in two thirds of its timeout reconnects."""
        async with asyncio.timeout(self._timeout_ms / 1500):
            return [await reply for reply in replies]

    async def _use(self) -> None:
        """Make requests until a whim ends the connection, or the session."""
        rng = self._rng
        for _ in range(rng.choice((3, 20, 60))):
            if self.calm:
                break
            replies = [self._send(request) for request in self._requests()]
            if rng.random() < 0.02:
                await asyncio.sleep(rng.choice((0.0, 0.001, 0.02)))
                raise ConnectionAbortedError("the connection is dropped with requests under way")
            await self._done(replies)
            await asyncio.sleep(rng.expovariate(30.0))
        if self.calm:
            await self._rest()
            return
        whim = rng.random()
        if whim < 0.2 and self._session is not None:
            self._session.closing = True
            await self._done([self._send(CloseSession())])
            self._session = None
        elif whim < 0.35:
            self._session = None  # it expires
        elif whim < 0.6:
            await asyncio.sleep(rng.choice((0.1, 1.0)))

    async def _rest(self) -> None:
        """Ping until the end."""
        while not self.over:
            await self._done([self._send(Ping()), self._send(Sync("/"))])
            self.settled = True
            await asyncio.sleep(self._timeout_ms / 4000)

    def _requests(self) -> list[Request]:
        return [self._request() for _ in range(self._rng.choice((1, 1, 2, 5)))]

    def _request(self) -> Request:
        rng, draw = self._rng, self._rng.random()
        self._sent += 1
        data = f"{self.name}:{self._sent}".encode()
        if rng.random() < 0.03:
            data = data.ljust(LARGE_BYTES)  # more than is filled ahead on a full disk
        watch = rng.random() < 0.5
        if draw < 0.2:
            return SetData(rng.choice(DATA), data, -1)
        if draw < 0.3:
            return Multi(tuple(SetData(path, data, -1) for path in PAIR))
        if draw < 0.35:
            return MultiRead(tuple(GetData(path, False) for path in PAIR))
        if draw < 0.38 and self._truth.sequences:
            return Delete(rng.choice(list(self._truth.sequences)), -1)
        if draw < 0.42:
            return creation("/s/n-", data, CreateMode.PERSISTENT_SEQUENTIAL)
        if draw < 0.5 and self._session is not None:
            path = f"/e/{self._session.answer.session_id:x}-{self._sent}"
            return creation(path, data, CreateMode.EPHEMERAL)
        if draw < 0.6:
            path = rng.choice(GONE)
            return creation(path, data) if rng.random() < 0.5 else Delete(path, -1)
        if draw < 0.7:
            return Exists(rng.choice((*GONE, *DATA)), watch)
        if draw < 0.8 and self._truth.owners:
            return Exists(rng.choice(list(self._truth.owners)), False)
        if draw < 0.83:
            return GetChildren("/s", False, False)
        return GetData(rng.choice(DATA), watch)


async def prepare(client: SeamClient) -> None:
    """Create the nodes that the clients use."""
    for path in (*PARENTS, *DATA, *PAIR):
        code = await client.code(creation(path, b"start"))
        assert code in (ErrorCode.OK, ErrorCode.NODE_EXISTS), code


async def stats(client: SeamClient, paths: tuple[str, ...]) -> dict[str, Stat | None]:
    """Return the states of nodes."""
    replies = {path: await client.send(Exists(path, False)) for path in paths}
    return {
        path: reply.answer if isinstance(reply.answer, Stat) else None
        for path, reply in replies.items()
    }
