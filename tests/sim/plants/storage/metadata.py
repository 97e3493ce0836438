"""Mistakes in the embedded metadata server, and in brokers whose configuration store is apart."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from engine.base.disk.files import File
from engine.metadata.apart.routed import OtherStore, RoutedStore
from engine.metadata.server.changes import Change, ChildrenChanged, DataSet
from engine.metadata.server.machine import Machine, WriteOutcome
from engine.metadata.server.node_reads import NodeReader
from engine.metadata.server.protocol import SetWatches, WatchRequest
from engine.metadata.server.server import MetadataServer
from engine.metadata.server.serving.client_requests import ClientRequests
from engine.metadata.server.serving.group_commit import FrameReceiver, GroupCommit
from engine.metadata.server.session_table import SessionClient, SessionTable
from engine.metadata.server.storage import metadata_log
from engine.metadata.server.watch_table import WatchNotice, WatchTable
from engine.metadata.store import SessionState
from tests.sim.plants.planting import Patches


def answer_before_its_sync() -> Patches:
    """Send an answer as soon as its change is made in memory."""

    def answer(self: ClientRequests, connection: Any, *arguments: Any, **options: Any) -> None:
        shown = arguments[3] if len(arguments) > 3 else options.get("shown", 0)
        del shown
        real(self, connection, *arguments[:3], **{**options, "shown": 0})

    real = ClientRequests.answer
    return [(ClientRequests, "answer", answer)]


def event_before_its_sync() -> Patches:
    """Send an event as soon as its change is made in memory."""

    def notify(self: ClientRequests, notices: Iterable[WatchNotice], group: int) -> None:
        real(self, notices, 0)

    real = ClientRequests._notify
    return [(ClientRequests, "_notify", notify)]


def read_shows_what_is_not_synced() -> Patches:
    """Answer reads at once, whatever they show."""

    def showing(self: GroupCommit, paths: Iterable[str] | None) -> int:
        return real(self, None) if paths is None else 0

    real = GroupCommit.showing
    return [(GroupCommit, "showing", showing)]


def frames_overtake_each_other() -> Patches:
    """Send a frame that waits for nothing ahead of those of its connection that do."""

    def emit(self: GroupCommit, receiver: FrameReceiver, frame: bytes, group: int) -> None:
        if group <= self.durable:
            receiver.send(frame)
        else:
            real(self, receiver, frame, group)

    real = GroupCommit.emit
    return [(GroupCommit, "emit", emit)]


def watch_is_lost_at_a_reconnect() -> Patches:
    """Set watches again without looking at what changed since the client was gone."""

    def watch(self: NodeReader, client: SessionClient, request: WatchRequest) -> list[WatchNotice]:
        if isinstance(request, SetWatches):
            request = request._replace(relative_zxid=1 << 62)
        return real(self, client, request)

    real = NodeReader.watch
    return [(NodeReader, "watch", watch)]


def watch_fires_again() -> Patches:
    """Keep a watch that has fired."""

    def fire(self: WatchTable, path: str) -> dict[SessionClient, None]:
        clients = dict.fromkeys(self._clients.get(path, ()))
        return clients

    return [(WatchTable, "fire", fire)]


def ephemeral_outlives_its_session() -> Patches:
    """End a session without its ephemeral nodes when it expires."""

    def close(self: Machine, session_id: int, zxid: int, now_ms: int) -> WriteOutcome:
        kept = self.tree.ephemerals.pop(session_id, {})
        outcome = real(self, session_id, zxid, now_ms)
        if kept:
            self.tree.ephemerals[session_id] = kept
        return outcome

    real = Machine.close_session
    return [(Machine, "close_session", close)]


def sessions_are_not_in_snapshots() -> Patches:
    """Store no sessions in snapshots: a restart ends those that were opened before."""

    def changes(self: SessionTable) -> list[Change]:
        return []

    return [(SessionTable, "changes", changes)]


def restart_takes_a_session_for_old() -> Patches:
    """Give sessions no time to come back after a restart."""

    async def start(self: MetadataServer) -> None:
        await real(self)
        for session_id in self.machine.sessions.ids():
            self._expiry.begin(session_id, 1)

    real = MetadataServer.start
    return [(MetadataServer, "start", start)]


def sequence_is_used_again() -> Patches:
    """Do not store a parent's counter, which numbers its sequential nodes."""

    def encode(transactions: Iterable[Any]) -> bytes:
        kept = [
            t._replace(changes=tuple(c for c in t.changes if not isinstance(c, ChildrenChanged)))
            for t in transactions
        ]
        return real(kept)

    from engine.metadata.server.serving import group_commit

    real = group_commit.encode_transactions
    return [(group_commit, "encode_transactions", encode)]


def version_is_skipped_by_a_replay() -> Patches:
    """Count a replayed write of data once more."""

    def load(disk: Any, directory: str, apply: Callable[[Change], None], draw: Any) -> Any:
        def again(change: Change) -> None:
            if isinstance(change, DataSet):
                change = change._replace(version=change.version + 1)
            apply(change)

        return real(disk, directory, again, draw)

    from engine.metadata.server import server

    real = server.load
    return [(server, "load", load)]


def zxids_are_used_again() -> Patches:
    """Begin where the last snapshot or segment began, in the same epoch."""

    def load(disk: Any, directory: str, apply: Any, draw: Any) -> Any:
        stored = real(disk, directory, apply, draw)
        return stored._replace(zxid=max(0, (stored.zxid >> 32) - 1) << 32)

    from engine.metadata.server import server

    real = server.load
    return [(server, "load", load)]


def torn_group_is_taken() -> Patches:
    """Take a group without comparing its checksum."""
    return [(metadata_log, "verifies", lambda head, body: len(body) == head.length)]


def snapshot_is_captured_before_its_segment_begins() -> Patches:
    """List the nodes of a snapshot when it is requested: those created until its segment begins are lost."""

    def roll(self: GroupCommit, capture: Callable[[], Any]) -> Any:
        captured = capture()
        return real(self, lambda: captured)

    real = GroupCommit.roll
    return [(GroupCommit, "roll", roll)]


def failed_sync_is_tried_again() -> Patches:
    """Sync again after a sync that failed, and believe it."""

    def write_and_sync(file: File, parts: Sequence[bytes | memoryview], offset: int) -> int:
        written = file.pwritev(parts, offset)
        try:
            file.fdatasync()
        except OSError:
            file.fdatasync()
        return written

    from tests.sim.kit import disk

    return [(module, "write_and_sync", write_and_sync) for module in (metadata_log, disk)]


def last_group_is_believed_at_a_start() -> Patches:
    """Take the last group as it is read, though its sync may have failed."""
    return [(metadata_log, "_write_again", lambda *arguments: None)]


def end_of_another_session_is_taken_for_the_own() -> Patches:
    """Report the states of the configuration store's session as those of the broker's own."""

    def on_state(self: RoutedStore, callback: Callable[[SessionState], None]) -> Callable[[], None]:
        for other in self.others:
            other.store.on_state(callback)
        return real(self, callback)

    real = RoutedStore.on_state
    return [(RoutedStore, "on_state", on_state)]


def session_counts_only_with_all_stores() -> Patches:
    """Take ownership for proven only while the configuration store answers, too."""

    def proven(self: RoutedStore) -> bool:
        return self._local.session_proven and all(o.store.session_proven for o in self.others)

    return [(RoutedStore, "session_proven", property(proven))]


def store_that_is_away_is_reported_as_there() -> Patches:
    """Report a store besides the broker's own as connected from its first connection on."""
    return [(OtherStore, "connected", property(lambda self: True))]
