"""The subscriptions that pass a filter, in an order that is updated as they change. Pure."""

from collections.abc import Sequence
from typing import Any, ClassVar

from gateway.services.index.selection import Listed, TopicSelection

Values = tuple[int | None, ...]
"""Figures in the order of COLUMNS; rates in thousandths per second; None: unknown."""

COLUMNS = (
    *("backlog", "msg_rate_out", "oldest_at", "backlog_messages", "backlog_estimated"),
    *("backlog_unmeasured", "consumers", "unacked", "age_target_s"),
)
OLDEST = COLUMNS.index("oldest_at")
TARGET = COLUMNS.index("age_target_s")
FIELDS = (
    *("topic", "tenant", "namespace", "subscription", "type", "consumers", "unacked"),
    *("msg_rate_out", "backlog", "oldest_age", "age_target_s"),
)
"""Fields that rows can be sorted by, as those of topics."""


class SubscriptionSelection(TopicSelection):
    """The sorted subscriptions of one ``Chosen`` that a viewer sees."""

    column_of: ClassVar[dict[str, int]] = {
        **{name: column for column, name in enumerate(COLUMNS)},
        "backlog": COLUMNS.index("backlog_messages"),
        "oldest_age": OLDEST,
    }
    backlog_column = COLUMNS.index("backlog")
    rate_out_column = COLUMNS.index("msg_rate_out")
    oldest_column = OLDEST

    def _topic_of(self, item: Any) -> str:
        topic: str = item.topic
        return topic

    def _texts_of(self, topics: Sequence[Any]) -> list[str]:
        if self._field == "subscription":
            return [item.title for item in topics]
        return (
            [item.kind for item in topics] if self._field == "type" else super()._texts_of(topics)
        )

    @property
    def _timed_columns(self) -> set[int]:
        return {OLDEST, TARGET}

    def _due_ms(self, item: Listed) -> int | None:
        due_ms = super()._due_ms(item)
        oldest_at, target_s = item.values[OLDEST], item.values[TARGET]
        if not self._chosen.late or due_ms is None:
            return due_ms
        if not target_s or oldest_at is None or oldest_at <= 0:
            return None
        return max(due_ms, oldest_at + target_s * 1000 + 1)
