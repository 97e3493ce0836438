"""Clients that watch a namespace's topics by a pattern: the names that match, then each change."""

from collections.abc import Callable, Set

from engine.base.errors import InvalidNameError
from engine.base.names import NamespaceName
from engine.broker.connection.lookups import filter_topics
from engine.broker.connection.patterns import (
    NAME_MAX,
    PatternError,
    matching,
    name_matcher,
    topics_hash,
)
from engine.broker.control.topic_lists import TopicLists
from engine.broker.errors import InvalidTopicName, NotAllowed
from engine.broker.outlet import Outlet
from engine.broker.settings import DataPathSettings
from engine.net.routing import Access, Route, Routes
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ProtocolViolation
from engine.wire.states import CommandType

REFUSED = "Unable to create topic list watcher: "


class _Watch:
    """One watcher: what it matches, and what of that its client has yet to be told."""

    def __init__(
        self, outlet: Outlet, watcher_id: int, namespace: NamespaceName, pattern: str
    ) -> None:
        """Raises PatternError, NotAllowed for a pattern that is not matched here."""
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

    def begin(self, matching: list[str]) -> str:
        """The client is told these now; their hash. What changed meanwhile follows."""
        early_new, early_gone = self._new, self._gone
        self._matching, self._new, self._gone = set(matching), set(), set()
        self._begun = True
        digest = topics_hash(matching)
        self._note(early_new, early_gone)
        return digest

    async def changed(self, new: Set[str], gone: Set[str]) -> None:
        # Longer names are left to the client, which asks for all now and then.
        short = (name for name in new if len(name) <= NAME_MAX)
        self._note(set(await matching(short, self._matches) or ()), gone)
        self.tell()

    def _note(self, new: Set[str], gone: Set[str]) -> None:
        if not self._begun:
            self._new = (self._new - gone) | new
            self._gone = (self._gone - new) | gone
            return
        new, gone = new - self._matching, gone & self._matching
        self._matching = (self._matching | new) - gone
        self._new, self._gone = (
            (self._new - gone) | (new - self._gone),
            (self._gone - new) | (gone - self._new),
        )

    def tell(self) -> None:
        """Send what is new, unless the client does not take what was sent before: then all of it later, at once."""
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

    def __init__(self, outlet: Outlet, lists: TopicLists, settings: DataPathSettings) -> None:
        self._outlet = outlet
        self._lists = lists
        self._settings = settings
        self._open: dict[int, _Watch] = {}

    async def watch(self, body: pb.CommandWatchTopicList) -> bytes:
        """A namespace that is no name closes the connection, as Pulsar does."""
        try:
            namespace = NamespaceName.parse(body.namespace)
        except InvalidNameError as error:
            raise ProtocolViolation(str(error)) from error
        self._check(body)
        try:
            watch = _Watch(self._outlet, body.watcher_id, namespace, body.topics_pattern)
        except PatternError as error:
            raise InvalidTopicName(f"Invalid topics pattern: {error}") from error
        self._end(body.watcher_id)
        self._open[body.watcher_id] = watch
        try:
            names = await self._lists.follow(namespace, watch)
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
        """Raises NotAllowed."""
        settings = self._settings
        if not settings.enable_broker_side_subscription_pattern_evaluation:
            raise NotAllowed(f"{REFUSED}Evaluating subscription patterns is disabled.")
        longest = settings.subscription_pattern_max_length
        if len(body.topics_pattern) > longest:
            raise NotAllowed(f"{REFUSED}Pattern longer than maximum: {longest}")
        most = settings.max_consumers_per_connection
        if body.watcher_id not in self._open and len(self._open) >= most:
            raise NotAllowed(f"{REFUSED}max_consumers_per_connection is {most}")

    def unwatch(self, body: pb.CommandWatchTopicListClose) -> bytes:
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
        """The client takes what is sent again."""
        for watch in self._open.values():
            watch.tell()

    def leave(self) -> None:
        """The connection is gone."""
        for watcher_id in list(self._open):
            self._end(watcher_id)


ROUTES: Routes = {
    CommandType.WATCH_TOPIC_LIST: Route(WatchCommands.watch, Access.LIST_TOPICS),
    CommandType.WATCH_TOPIC_LIST_CLOSE: Route(WatchCommands.unwatch),
}
