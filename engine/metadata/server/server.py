"""The metadata server: one node behind ZooKeeper's protocol, over the seams for time, chance, sockets and files.

``requests`` executes what arrives at once, ``commits`` makes it durable and then sends what shows it. This module has
the beginning and end of sessions, the repeated work and the life of the server.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from engine.auth.credentials import PeerCertificate
from engine.base.clock import Clock
from engine.base.disk.files import Disk, Lane
from engine.base.entropy import Entropy
from engine.base.errors import PeerError
from engine.base.tasks import TaskScope, contained, restarting
from engine.metadata.server.codec import encode_connect
from engine.metadata.server.machine import Machine
from engine.metadata.server.node_tree import CorruptTreeError
from engine.metadata.server.protocol import ConnectAnswer, ConnectRequest
from engine.metadata.server.serving.client_connection import ConnectedClient, ZooKeeperConnection
from engine.metadata.server.serving.client_requests import ClientRequests
from engine.metadata.server.serving.four_letter_words import (
    WORDS,
    ConnectionFigures,
    ServerFigures,
)
from engine.metadata.server.serving.group_commit import FrameReceiver, GroupCommit
from engine.metadata.server.serving.session_expiry import SessionExpiry
from engine.metadata.server.serving.snapshot_taker import SnapshotTaker
from engine.metadata.server.serving.status_pages import status_pages
from engine.metadata.server.settings import MetadataServerSettings
from engine.metadata.server.storage.change_format import INSTANCE_BYTES, SALT_BYTES
from engine.metadata.server.storage.metadata_log import DamagedStoreError, LogWriter
from engine.metadata.server.storage.snapshot_files import Stored, load
from engine.net.http import HttpServer
from engine.net.listener import Listener
from engine.net.network import Network
from engine.net.tls import ServerFiles

log = logging.getLogger(__name__)

PASSWORD_BYTES = 16
NO_SESSION = ConnectAnswer(0, 0, bytes(PASSWORD_BYTES))
"""Answer to a client whose session does not exist any more."""
DRAIN_S = 5.0
STATUS_CONNECTIONS_MAX = 64
_SERVER_ID = 1


def first_session_id(zxid: int) -> int:
    """Return the first session id of a start, whose first zxid is given.

    Its epoch is in the id: one that opened a session is never used again, whatever the clock does (Z6).
    """
    return _SERVER_ID << 56 | (zxid >> 32 & (1 << 24) - 1) << 32


class MetadataServer:
    """The server of one data folder. ``over`` is set when it must end: after a failure or ``request_stop``."""

    def __init__(
        self,
        settings: MetadataServerSettings,
        *,
        clock: Clock,
        entropy: Entropy,
        network: Network,
        disk: Disk,
        lanes: Callable[[str], Lane],
    ) -> None:
        """Make a server without starting it, inside a running event loop."""
        self.settings = settings
        self.machine = Machine(settings.watches_max)
        self.over = asyncio.Event()
        self.failure: BaseException | None = None
        self.commits: GroupCommit
        self.emit: Callable[[FrameReceiver, bytes, int], None]
        self.requests: ClientRequests
        self._clock = clock
        self._entropy = entropy
        self._disk = disk
        self._lanes = lanes
        self._listener = Listener(
            network,
            self._new_connection,
            connections_max=settings.connections_max,
            per_address_max=settings.connections_per_address_max,
        )
        self._tls_listener = Listener(
            network,
            self._new_connection,
            connections_max=settings.connections_max,
            per_address_max=settings.connections_per_address_max,
        )
        self._status = HttpServer(
            network,
            status_pages(self._figures, self.why_not_ready, clock),
            connections_max=STATUS_CONNECTIONS_MAX,
            body_bytes_max=0,
        )
        self._is_listening = False
        self._clients: dict[int, ConnectedClient] = {}
        self._scope = TaskScope("metadata")
        self._expiry = SessionExpiry(self._expire)
        self._writer: LogWriter | None = None
        self._lane: Lane | None = None
        self._snapshots: SnapshotTaker | None = None
        self._next_session_id = 0
        self._started_ms = clock.wall_ms()

    # What reports show

    @property
    def port(self) -> int:
        """The bound port; 0 before ``start``."""
        return self._listener.port

    @property
    def tls_port(self) -> int:
        return self._tls_listener.port

    @property
    def http_port(self) -> int:
        """The bound port of the pages; 0 without them."""
        return self._status.port

    @property
    def connections(self) -> list[ZooKeeperConnection]:
        return [*self._listener.connections, *self._tls_listener.connections]  # type: ignore[list-item]

    @property
    def writable(self) -> bool:
        """False while the disk is full."""
        return self.commits.has_room

    def report(self, word: bytes) -> bytes | None:
        """Return the report that a four-letter word asks for; None when it is none."""
        form = WORDS.get(word)
        return None if form is None else form(self._figures()).encode()

    def _figures(self) -> ServerFigures:
        tree, watches = self.machine.tree, self.machine.watches
        settings = self.settings
        low, high = settings.session_timeouts_ms
        return ServerFigures(
            failed=self.failure is not None,
            writable=self.writable,
            received=self.requests.received,
            sent=self.requests.answered,
            connections=[
                ConnectionFigures(c.peer_name, c.session_id, c.waiting) for c in self.connections
            ],
            refused=self._listener.refused + self._tls_listener.refused,
            outstanding=self.commits.waiting,
            zxid=self.commits.durable_zxid,
            nodes=tree.node_count(),
            ephemerals=tree.ephemerals_count(),
            data_bytes=tree.data_bytes,
            sessions=len(self.machine.sessions),
            watches=watches.size(),
            data_watches=watches.data_watches(),
            uptime=self._clock.wall_ms() - self._started_ms,
            syncs=self.commits.groups,
            log_bytes=self.commits.log_bytes,
            snapshot_bytes=self._snapshots.size if self._snapshots is not None else 0,
            configuration={
                "clientPort": self.port,
                "dataDir": settings.data_dir,
                "tickTime": settings.tick_time_ms,
                "maxClientCnxns": settings.connections_per_address_max,
                "minSessionTimeout": low,
                "maxSessionTimeout": high,
                "serverId": 0,
            },
        )

    def why_not_ready(self) -> str | None:
        """Return the reason why the server is not ready; None when it is."""
        if self.failure is not None:
            return f"failed: {self.failure}"
        return None if self._is_listening else "starting: reading the log"

    # Life

    async def start(self) -> None:
        """Load the store, listen and serve. Raises DamagedStoreError, TlsFileError and OSError."""
        settings = self.settings
        if settings.http_port is not None:
            await self._status.listen(settings.host, settings.http_port)
        self._lane = self._lanes("log")
        stored = await self._lane.run(self._load)
        # A new epoch: what was given and lost in a crash is not given again (Z6).
        zxid = (max(stored.zxid, self.machine.last_zxid) >> 32) + 1 << 32
        self.machine.last_zxid = zxid
        self._next_session_id = first_session_id(zxid)
        self._writer = LogWriter(
            self._disk,
            settings.data_dir,
            instance=stored.instance,
            draw_salt=partial(self._random_bytes, SALT_BYTES),
            number=stored.number,
            sequence=stored.sequence,
            free_bytes_min=settings.disk_free_bytes_min,
        )
        await self._lane.run(partial(self._writer.begin_segment, zxid))
        self.commits = GroupCommit(
            self._writer, self._lane, zxid, on_failure=self._fail, on_room=self._room_changed
        )
        self.commits.log_bytes = stored.log_bytes
        self.emit = self.commits.emit
        self.requests = ClientRequests(self.machine, self.commits, self._clock, self._session_ended)
        self._snapshots = SnapshotTaker(
            self.machine,
            self.commits,
            self._disk,
            settings.data_dir,
            self._lanes("snapshot"),
            log_bytes_min=settings.snapshot_log_bytes,
            stored=stored,
        )
        for session_id in self.machine.sessions.ids():
            session = self.machine.sessions.get(session_id)
            assert session is not None
            # Each has its full timeout after a restart (Z7).
            self._expiry.begin(session_id, session.timeout_ms)
        self._scope.spawn("snapshots", restarting("snapshots", self._snapshots.run))
        self._scope.spawn("unused", restarting("search for unused nodes", self._remove_unused))
        await self._listen()
        self._is_listening = True
        log.info(
            "serving metadata: one node, no replication: keep backups of data_dir=%s port=%d nodes=%d sessions=%d"
            " zxid=0x%x",
            settings.data_dir,
            self.port,
            self.machine.tree.node_count(),
            len(self.machine.sessions),
            zxid,
        )

    def _load(self) -> Stored:
        draw = partial(self._random_bytes, INSTANCE_BYTES)
        directory = self.settings.data_dir
        stored = load(self._disk, directory, self.machine.apply, draw)
        try:
            self.machine.tree.verify()
        except CorruptTreeError as error:
            raise DamagedStoreError(
                f"{directory} does not hold a tree, {error}: restore it from a backup"
            ) from error
        return stored

    async def _listen(self) -> None:
        settings = self.settings
        if settings.tls_port is not None:
            files = ServerFiles(
                settings.tls_certificate_path,
                settings.tls_key_path,
                settings.tls_trust_path,
                settings.tls_client_certificate_required,
            )
            tls = files.reloaded(settings.tls_refresh_seconds)
            await self._tls_listener.start(settings.host, settings.tls_port, tls=tls)
        if not settings.tls_only:
            await self._listener.start(settings.host, settings.port)

    def admits(self, certificate: PeerCertificate | None) -> bool:
        """Return whether a client with this certificate is served."""
        names = self.settings.client_names
        subject = (certificate or {}).get("subject", ())
        presented = {value for part in subject for kind, value in part if kind == "commonName"}
        return not names or not names.isdisjoint(presented)

    def _new_connection(self) -> ZooKeeperConnection:
        settings = self.settings
        return ZooKeeperConnection(self, settings.request_bytes_max, settings.waiting_bytes_max)

    def request_stop(self) -> None:
        self.over.set()

    async def drain(self) -> None:
        """Answer what was received, take a snapshot if that is quick, and stop; also after a failed start. Sessions
        stay."""
        for listener in (self._listener, self._tls_listener):
            listener.stop_accepting()
        self._expiry.stop()
        await self._scope.close()
        for connection in self.connections:
            connection.hold("drain")
        if self._snapshots is not None and self.failure is None:
            try:
                async with asyncio.timeout(DRAIN_S):
                    await self.commits.drain()
                    await self._snapshots.take_if_quick()
            except TimeoutError:
                log.warning("stopped before all requests were answered: the disk is full or slow")
            self.commits.stop()
        for listener in (self._listener, self._tls_listener):
            await listener.drain(DRAIN_S)
        if self._lane is not None:
            if self._writer is not None and self.failure is None:
                with contained("close of the log"):
                    await self._lane.run(self._writer.close)
            self._lane.close()
        if self._snapshots is not None:
            self._snapshots.close()
        await self._status.close()

    def _fail(self, error: BaseException) -> None:
        """End the server: what is in memory and on the disk may differ."""
        self.failure = error
        log.critical("the log cannot be written, the server stops: %s", error)
        for connection in self.connections:
            connection.abort()
        self.over.set()

    def _room_changed(self, room: bool) -> None:
        if room:
            log.warning("there is room on the disk again, writes are accepted")
        else:
            log.warning(
                "the disk is full: read-only until there is room, only sessions can still end data_dir=%s",
                self.settings.data_dir,
            )

    # Sessions

    def connect(self, connection: ZooKeeperConnection, request: ConnectRequest) -> None:
        """Open a session for a connection, or continue one. Raises PeerError, which closes the connection."""
        self.requests.received += 1
        if request.last_zxid > self.machine.last_zxid:
            raise PeerError(
                f"client has seen transaction {request.last_zxid:#x}, the last here is {self.machine.last_zxid:#x}"
            )
        low, high = self.settings.session_timeouts_ms
        timeout_ms = min(max(request.timeout_ms, low), high)
        if not request.session_id:
            answer = self._open_session(connection, timeout_ms)
        elif self.machine.sessions.accepts(request.session_id, request.password):
            self._attach(connection, request.session_id, timeout_ms)
            answer = ConnectAnswer(timeout_ms, request.session_id, request.password)
        else:
            frame = encode_connect(NO_SESSION, request.has_read_only)
            connection.finish(frame, self.commits.showing(None))
            return
        # Also a session that continues waits: a crash must not bring back what ended it in the meantime.
        frame = encode_connect(answer, request.has_read_only)
        self.requests.answered += 1
        self.commits.emit(connection, frame, self.commits.showing(None))

    def _open_session(self, connection: ZooKeeperConnection, timeout_ms: int) -> ConnectAnswer:
        if not self.commits.has_room:
            raise PeerError("no session can be opened while the disk is full")
        session_id, self._next_session_id = self._next_session_id, self._next_session_id + 1
        password = self._random_bytes(PASSWORD_BYTES)
        zxid, now_ms = self.machine.last_zxid + 1, self._clock.wall_ms()
        self.requests.commit(
            self.machine.open_session(session_id, timeout_ms, password, zxid, now_ms)
        )
        self._attach(connection, session_id, timeout_ms)
        return ConnectAnswer(timeout_ms, session_id, password)

    def _attach(self, connection: ZooKeeperConnection, session_id: int, timeout_ms: int) -> None:
        """Make a connection the one of its session."""
        earlier = self._clients.get(session_id)
        if earlier is not None:
            self.machine.watches.remove_client(earlier)
            earlier.connection.abort()
        client = ConnectedClient(session_id, connection.address, connection)
        self._clients[session_id] = connection.client = client
        connection.live = self._expiry.begin(session_id, timeout_ms)

    def disconnected(self, connection: ZooKeeperConnection) -> None:
        """Forget a connection; its session continues."""
        client = connection.client
        if client is not None:
            self.machine.watches.remove_client(client)
            if self._clients.get(client.session_id) is client:
                del self._clients[client.session_id]

    def _session_ended(self, client: ConnectedClient) -> None:
        self._expiry.end(client.session_id)
        self._clients.pop(client.session_id, None)

    def _expire(self, session_id: int) -> None:
        zxid, now_ms = self.machine.last_zxid + 1, self._clock.wall_ms()
        log.debug("session expired session=0x%x", session_id)
        self.requests.commit(self.machine.close_session(session_id, zxid, now_ms))
        client = self._clients.pop(session_id, None)
        if client is not None:
            client.connection.close()

    def _random_bytes(self, size: int) -> bytes:
        return self._entropy.bits(8 * size).to_bytes(size, "big")

    # Repeated work

    async def _remove_unused(self) -> None:
        """Delete containers that became empty and nodes whose time has passed, again and again."""
        while True:
            await asyncio.sleep(self.settings.unused_check_seconds)
            for path in self.machine.unused(self._clock.wall_ms()):
                if self.commits.has_room:
                    zxid, now_ms = self.machine.last_zxid + 1, self._clock.wall_ms()
                    self.requests.commit(self.machine.remove_unused(path, zxid, now_ms))
