"""All client connections of the broker: accepts them, counts them, ends them."""

from engine.base.budget import Budget
from engine.broker.connection.lookups import LookupCommands
from engine.broker.connection.schemas import SchemaCommands
from engine.broker.connection.session import Session
from engine.broker.context import Context
from engine.broker.ports import Namespaces, Ownership
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.schema_rules import SchemaRules


class Sessions:
    """``accept`` is the protocol factory to listen with. ``close`` ends every connection."""

    def __init__(
        self,
        context: Context,
        registry: TopicRegistry,
        ownership: Ownership,
        namespaces: Namespaces,
        schemas: SchemaRules,
    ) -> None:
        self._context = context
        self._registry = registry
        self._lookups = LookupCommands(
            registry,
            ownership,
            namespaces,
            pattern_length_max=context.settings.subscription_pattern_max_length,
        )
        self._schemas = schemas
        self._on_schemas = SchemaCommands(registry, schemas)
        self._open: dict[Session, None] = {}
        self.accepted = 0
        self._publish_budget = Budget(context.settings.max_message_publish_buffer_size)

    def accept(self) -> Session:
        """The protocol of one new connection."""
        self.accepted += 1
        session = Session(
            self._context,
            self._registry,
            self._lookups,
            self._on_schemas,
            self._schemas,
            self._publish_budget,
            self._open.pop,
        )
        self._open[session] = None
        return session

    @property
    def count(self) -> int:
        return len(self._open)

    async def close(self) -> None:
        """Close every connection; topics are to be unloaded before, so that clients know where to go."""
        for session in list(self._open):
            session.close()
