"""Sums of topics' figures by tenant, updated with each change of a topic."""

from typing import TypedDict

from engine.base.names import split_topic
from gateway.services.index.figures import (
    BACKLOG,
    ESTIMATED,
    MESSAGES,
    RATE_IN,
    STORAGE,
    UNMEASURED,
    KnownValues,
)
from gateway.services.index.rows import NO

_SUMMED = (BACKLOG, MESSAGES, ESTIMATED, UNMEASURED, RATE_IN, STORAGE)


class TenantNumbers(TypedDict):
    """Sums of one tenant: ``msg_rate_in`` per second, ``backlog`` in entries, ``backlog_messages`` and how many of
    them are estimated or unmeasured as in ``ROW_COLUMNS``. ``unknown`` topics are not in the sums."""

    topics: int
    unknown: int
    backlog: int
    backlog_messages: int
    backlog_estimated: int
    backlog_unmeasured: int
    msg_rate_in: float
    storage_bytes: int


class TenantSums:
    """The number of topics, of unknown ones among them, and the sums of ``_SUMMED``, by tenant."""

    def __init__(self) -> None:
        self._sums: dict[str, list[int]] = {}

    def replace(self, topic: str, before: KnownValues | None, after: KnownValues | None) -> None:
        """Replace a topic's figures; None before it exists, or after it is removed."""
        tenant = split_topic(topic).tenant
        sums = self._sums.setdefault(tenant, [0] * (2 + len(_SUMMED)))
        for figures, sign in ((before, -1), (after, 1)):
            if figures is None:
                continue
            sums[0] += sign
            sums[1] += sign * (figures.known == NO)
            for place, column in enumerate(_SUMMED, 2):
                sums[place] += sign * (figures.values[column] or 0)
        if not sums[0]:
            del self._sums[tenant]

    def of(self, tenant: str) -> TenantNumbers:
        """Return the tenant's sums; zeros without topics."""
        sums = self._sums.get(tenant, [0] * (2 + len(_SUMMED)))
        topics, unknown, backlog, messages, estimated, unmeasured, rate, storage = sums
        return {
            "topics": topics,
            "unknown": unknown,
            "backlog": backlog,
            "backlog_messages": messages,
            "backlog_estimated": estimated,
            "backlog_unmeasured": unmeasured,
            "msg_rate_in": rate / 1000,
            "storage_bytes": storage,
        }
