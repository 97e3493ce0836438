"""Operations that trace single entries of a topic. Pure."""

from dataclasses import dataclass

from engine.admin.api.arguments import JsonObject, OnTopic, within
from engine.admin.api.rights import ADMIN, CONSUME
from engine.rpc.operation import Operation

ENTRIES_MAX = 20
SECONDS_MAX = 300


@dataclass(frozen=True, slots=True)
class TraceEntries(OnTopic):
    """Selection of the next ``entries`` (1 to ENTRIES_MAX) that are published within ``seconds`` (1 to SECONDS_MAX).

    ``sampled_only``: only entries whose property ``traceparent`` has the context of a sampled trace.
    """

    entries: int = 1
    seconds: int = 60
    sampled_only: bool = False

    def __post_init__(self) -> None:
        within("entries", self.entries, 1, ENTRIES_MAX)
        within("seconds", self.seconds, 1, SECONDS_MAX)


TRACE_ENTRIES = Operation("trace_entries", TraceEntries, JsonObject, ADMIN)
"""Trace the next entries, in place of an earlier request for the topic: ``{"left": entries}``."""
TRACES = Operation("traces", OnTopic, JsonObject, CONSUME, reads=True)
"""The topic's traces, newest first: ``{"left": entries still to be selected, "traces": [trace with spans]}``. Without
payloads and keys. They are kept in memory until the topic is unloaded."""
END_TRACING = Operation("end_tracing", OnTopic, JsonObject, ADMIN)
"""End the selection and observation of entries, and delete the topic's traces."""
