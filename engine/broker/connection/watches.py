"""Watches of a namespace's topics by a pattern: the client is sent the matching names, then each change."""

import logging
from collections.abc import Callable, Set

from engine.auth.actions import Action
from engine.auth.authorization.refusal_texts import COMMAND_REFUSALS
from engine.auth.identity import Identity
from engine.auth.judge import Judge
from engine.auth.rights import OPENED, Right
from engine.base.names import NamespaceName
from engine.broker.connection.confirmed_right import confirm
from engine.broker.connection.lookups import filter_topics, namespace_of
from engine.broker.connection.patterns import (
    NAME_MAX,
    PatternError,
    matching,
    name_matcher,
    topics_hash,
)
from engine.broker.control.topic_lists import TopicLists
from engine.broker.errors import InvalidTopicName, NotAllowed
from engine.broker.outlet import ClientConnection
from engine.broker.settings import DataPathSettings
from engine.net.routing import Route, Routes
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.states import CommandType

log = logging.getLogger(__name__)

REFUSED = "Unable to create topic list watcher: "


class _Watch:
    """One watcher: the matching topics, and the changes that its client has not been sent yet."""

    def __init__(
        self, outlet: ClientConnection, watcher_id: int, namespace: NamespaceName, pattern: str
    ) -> None:
        """Create a watcher. Raises PatternError, NotAllowed for a pattern that is not matched here."""
        matches = name_matcher(pattern, memo=False)
        if matches is None:
            raise NotAllowed(f"{REFUSED}Pattern is too complex to be evaluated by the broker")
        self.namespace = namespace
        self._outlet = outlet
        self._id = watcher_id
        self._matches: Callable[[str], bool] = matches
        self._matching: set[str] = set()
        self._new: set[str] = set()
        self._gone: set[str] = set()
        self._begun = False
        self._is_suspended = False

    @property
    def identity(self) -> Identity:
        return self._outlet.identity

    def suspend(self, reason: str) -> None:
        if not self._is_suspended:
            log.info("no longer authorized client=%s: %s", self._outlet.address, reason)
        self._is_suspended = True

    def resume(self) -> None:
        if self._is_suspended:
            self._is_suspended = False
            self.send_changes()

    def begin(self, matching: list[str]) -> str:
        """Record the topics of the first answer and return their hash. Changes since their listing are sent later."""
        early_new, early_gone = self._new, self._gone
        self._matching, self._new, self._gone = set(matching), set(), set()
        self._begun = True
        digest = topics_hash(matching)
        self._merge(early_new, early_gone)
        return digest

    async def changed(self, new: Set[str], gone: Set[str]) -> None:
        """Send the topics that were created and deleted, as far as they match. Called by ``TopicLists``."""
        # Longer names are left to the client, which lists all topics periodically.
        short = (name for name in new if len(name) <= NAME_MAX)
        self._merge(set(await matching(short, self._matches) or ()), gone)
        self.send_changes()

    def _merge(self, new: Set[str], gone: Set[str]) -> None:
        """Merge changes into the unsent ones, so that a topic created and deleted in between is not sent."""
        if not self._begun:
            # Until the first answer it is not known which topics match, so all changes are kept.
            self._new = (self._new - gone) | new
            self._gone = (self._gone - new) | gone
            return
        new, gone = new - self._matching, gone & self._matching
        self._matching = (self._matching | new) - gone
        self._new, self._gone = (
            (self._new - gone) | (new - self._gone),
            (self._gone - new) | (gone - self._new),
        )

    def send_changes(self) -> None:
        """Send the unsent changes. They are kept and sent together later while the connection is not writable, or the
        client has no right to them."""
        if self._is_suspended:
            return
        if self._begun and (self._new or self._gone) and self._outlet.can_send:
            self._outlet.send(
                commands.watch_topic_update(
                    self._id,
                    sorted(self._new),
                    sorted(self._gone),
                    topics_hash(list(self._matching)),
                )
            )
            self._new, self._gone = set(), set()


class WatchCommands:
    """The watchers of one connection."""

    def __init__(
        self,
        outlet: ClientConnection,
        lists: TopicLists,
        settings: DataPathSettings,
        judge: Judge,
    ) -> None:
        self._outlet = outlet
        self._judge = judge
        self._lists = lists
        self._settings = settings
        self._open: dict[int, _Watch] = {}

    async def watch(self, body: pb.CommandWatchTopicList) -> bytes:
        """Handle WATCH_TOPIC_LIST and return the answer. Raises ProtocolViolation for an invalid namespace name, which
        closes the connection as in Pulsar."""
        namespace = namespace_of(body)
        self._check(body)
        try:
            watch = _Watch(self._outlet, body.watcher_id, namespace, body.topics_pattern)
        except PatternError as error:
            raise InvalidTopicName(f"Invalid topics pattern: {error}") from error
        self._end(body.watcher_id)
        self._open[body.watcher_id] = watch
        try:
            names = await self._lists.follow(namespace, watch)
            identity, command = self._outlet.identity, CommandType.WATCH_TOPIC_LIST
            await confirm(self._judge, identity, Action.LOOKUP, namespace, command)
            topics = await filter_topics(list(names), body.topics_pattern)
            if topics is None:
                raise NotAllowed(f"{REFUSED}Pattern or names are too long to be matched in time")
        except BaseException:
            self._drop(body.watcher_id, watch)
            raise
        if self._open.get(body.watcher_id) is not watch:  # closed meanwhile
            self._lists.leave(namespace, watch)
        digest = watch.begin(topics)
        known = body.HasField("topics_hash") and body.topics_hash == digest
        answer = commands.watch_topic_list_success(
            body.request_id, body.watcher_id, [] if known else sorted(topics), digest
        )
        return answer

    def _check(self, body: pb.CommandWatchTopicList) -> None:
        """Check a request against the settings. Raises NotAllowed."""
        settings = self._settings
        if not settings.enable_broker_side_subscription_pattern_evaluation:
            raise NotAllowed(f"{REFUSED}Evaluating subscription patterns is disabled.")
        length_max = settings.subscription_pattern_max_length
        if len(body.topics_pattern) > length_max:
            raise NotAllowed(f"{REFUSED}Pattern longer than maximum: {length_max}")
        watches_max = settings.max_consumers_per_connection
        if body.watcher_id not in self._open and len(self._open) >= watches_max:
            raise NotAllowed(f"{REFUSED}max_consumers_per_connection is {watches_max}")

    async def unwatch(self, body: pb.CommandWatchTopicListClose) -> bytes:
        """End a watcher. It is a task, as ``watch`` is, so that it begins behind one that was read together with it."""
        self._end(body.watcher_id)
        return commands.success(body.request_id)

    def _end(self, watcher_id: int) -> None:
        watch = self._open.get(watcher_id)
        if watch is not None:
            self._drop(watcher_id, watch)

    def _drop(self, watcher_id: int, watch: _Watch) -> None:
        if self._open.get(watcher_id) is watch:
            del self._open[watcher_id]
        self._lists.leave(watch.namespace, watch)

    def wake(self) -> None:
        """Send the kept changes when the connection is writable again."""
        for watch in self._open.values():
            watch.send_changes()

    def disconnected(self) -> None:
        """End all watchers after the connection has ended."""
        for watcher_id in list(self._open):
            self._end(watcher_id)


ROUTES: Routes = {
    CommandType.WATCH_TOPIC_LIST: Route(
        WatchCommands.watch,
        Right(Action.LOOKUP, NamespaceName, namespace_of),
        refusal=COMMAND_REFUSALS["WATCH_TOPIC_LIST"],
    ),
    CommandType.WATCH_TOPIC_LIST_CLOSE: Route(WatchCommands.unwatch, OPENED),
}
