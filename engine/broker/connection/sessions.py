"""All client connections of the broker: accepted, counted and closed."""

from collections.abc import Callable, Iterator, Mapping

from engine.auth.identity import Identity
from engine.base.budget import Budget
from engine.base.names import NamespaceName
from engine.broker.connection.lookups import LookupCommands
from engine.broker.connection.schemas import SchemaCommands
from engine.broker.connection.session import Session
from engine.broker.context import Context
from engine.broker.control.topic_lists import Follower, TopicLists
from engine.broker.ports import Namespaces, Ownership
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.schema_rules import SchemaRules
from engine.broker.transactions.coordinator.coordinators import Coordinators
from engine.net.handshake import HandshakeError


class Sessions:
    """The client connections of a broker. ``accept`` is the protocol factory of the listener; ``close`` ends every
    connection."""

    def __init__(
        self,
        context: Context,
        registry: TopicRegistry,
        ownership: Ownership,
        namespaces: Namespaces,
        schemas: SchemaRules,
        coordinators: Coordinators | None = None,
    ) -> None:
        """``coordinators``: those of transactions; None where transactions are not enabled."""
        self._context = context
        self._registry = registry
        self.lookups = LookupCommands(
            registry, ownership, namespaces, context.settings, context.clock
        )
        self._lists = TopicLists(namespaces)
        self._schemas = schemas
        self._schema_commands = SchemaCommands(registry, schemas)
        self._coordinators = coordinators
        self._open: dict[Session, None] = {}
        self.accepted = 0
        self.failed = 0
        """Number of connections that ended before CONNECT was answered."""
        self._publish_budget = Budget(context.settings.max_message_publish_buffer_size)

    def accept(self, listener: str = "") -> Session:
        """Create the protocol of a new connection, which came in by an address of ``listener``."""
        self.accepted += 1
        session = Session(
            self._context,
            self._registry,
            self.lookups,
            self._lists,
            self._schema_commands,
            self._schemas,
            self._coordinators,
            self._publish_budget,
            self._ended,
            listener,
            self.accepted,
        )
        self._open[session] = None
        return session

    @property
    def refused_commands(self) -> Mapping[str, int]:
        """Numbers of commands that clients had no right to, by type."""
        return self._context.refused_commands.counts

    def _ended(self, session: Session) -> None:
        del self._open[session]
        if not session.connected:
            self.failed += 1

    def after(self, number: int) -> Iterator[Session]:
        """Iterate over the clients' connections with higher numbers, in their order, without those in handshake. They
        may end meanwhile, and others begin."""
        return (
            session
            for session in list(self._open)
            if session.number > number and session.connected and not session.closing
        )

    @property
    def connected(self) -> int:
        """Connections since the start whose CONNECT was answered."""
        connecting = sum(not session.connected for session in self._open)
        return self.accepted - self.failed - connecting

    @property
    def throttled(self) -> int:
        """Number of connections that are currently held, so that they are not read."""
        return sum(session.held for session in self._open)

    @property
    def pending_bytes(self) -> int:
        """Bytes sent to clients that the kernel has not accepted yet."""
        return sum(session.buffered_bytes for session in self._open)

    def watches_of(self, namespace: NamespaceName) -> list[Follower]:
        """Return the watchers of a namespace's topics."""
        return self._lists.followers(namespace)

    def watched(self) -> list[NamespaceName]:
        """Return the namespaces whose topics are watched."""
        return self._lists.followed()

    @property
    def count(self) -> int:
        return len(self._open)

    @property
    def now_s(self) -> float:
        """Seconds of the monotonic clock."""
        return self._context.clock.monotonic_s()

    def close_where(self, withdrawn: Callable[[Identity], bool]) -> None:
        """Close the connections of clients whose credentials are no longer valid; they may connect by others."""
        for session in list(self._open):
            if session.connected and withdrawn(session.identity):
                session.close(HandshakeError("the client's credentials were withdrawn"))

    async def close(self) -> None:
        """Close every connection. Unload the topics first, so that clients look them up again."""
        for session in list(self._open):
            session.close()
        await self._lists.close()
