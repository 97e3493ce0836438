"""Sums of topics' numbers by tenant, kept as the topics change."""

from typing import TypedDict

from engine.base.names import split_topic
from gateway.services.index.figures import (
    BACKLOG,
    ESTIMATED,
    MESSAGES,
    RATE_IN,
    STORAGE,
    UNMEASURED,
    Figures,
)
from gateway.services.index.rows import NO

_SUMMED = (BACKLOG, MESSAGES, ESTIMATED, UNMEASURED, RATE_IN, STORAGE)


class TenantNumbers(TypedDict):
    """``unknown``: topics that are not in the sums. ``msg_rate_in`` per second, ``backlog`` in entries,
    ``backlog_messages`` and what is known of them as of ``ROW_COLUMNS``."""

    topics: int
    unknown: int
    backlog: int
    backlog_messages: int
    backlog_estimated: int
    backlog_unmeasured: int
    msg_rate_in: float
    storage_bytes: int


class TenantSums:
    """By tenant: how many topics, how many of them are not known, and the sums of ``_SUMMED``."""

    def __init__(self) -> None:
        self._sums: dict[str, list[int]] = {}

    def replace(self, topic: str, before: Figures | None, after: Figures | None) -> None:
        """``topic`` has other figures than before; None: it was, or is, not there."""
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
        """Zeros of a tenant without topics."""
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
