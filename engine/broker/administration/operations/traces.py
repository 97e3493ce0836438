"""Administrative operations that trace entries."""

from engine.admin.api.arguments import JsonObject, OnTopic
from engine.admin.api.traces import END_TRACING, TRACE_ENTRIES, TRACES, TraceEntries
from engine.broker.administration.operations.owned_topics import OwnedTopics
from engine.rpc.operation import Handlers, bind


class TraceOperations:
    """Handlers of the operations, which ``engine.admin.api.traces`` describes."""

    def __init__(self, topics: OwnedTopics) -> None:
        self._topics = topics

    @property
    def handlers(self) -> Handlers:
        """The handlers by operation."""
        return dict(
            [
                bind(TRACE_ENTRIES, self.begin),
                bind(TRACES, self.traces),
                bind(END_TRACING, self.end),
            ]
        )

    async def begin(self, args: TraceEntries) -> JsonObject:
        topic = await self._topics.persistent(args.topic, "Tracing")
        topic.tracing.begin(args.entries, args.seconds, sampled_only=args.sampled_only)
        return {"left": topic.tracing.left}

    async def traces(self, args: OnTopic) -> JsonObject:
        tracing = (await self._topics.persistent(args.topic, "Tracing")).tracing
        return {"left": tracing.left, "traces": tracing.documents()}

    async def end(self, args: OnTopic) -> JsonObject:
        topic = await self._topics.persistent(args.topic, "Tracing")
        topic.tracing.end()
        return {"left": 0}
