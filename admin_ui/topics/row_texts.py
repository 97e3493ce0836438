"""Rows of the topic list as JSON, each written once for all who see it, for as long as nothing but its time changes."""

from gateway.http.bodies import text_of
from gateway.services.index.rows import row_of
from gateway.services.index.topic_index import Known, TopicIndex

Trend = tuple[int | None, ...]
Cause = tuple[str, str]
MadeOf = tuple[Known, Trend | None, Cause | None]

KEPT_MAX = 16_384
"""About 10 MB."""


class RowTexts:
    """On one event loop. Those that were written the longest ago make room for others."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[MadeOf, str]] = {}
        """What a row was made of, and its text without the end, which is the time. Plain tuples: the garbage collector
        does not look at them again."""

    def __len__(self) -> int:
        return len(self._kept)

    def row(
        self,
        topics: TopicIndex,
        name: str,
        now_ms: int,
        trend: Trend | None,
        attention: Cause | None,
    ) -> tuple[str, str]:
        """The row but for its end, which is the same text for as long as nothing changes, and the end. KeyError when
        the topic is not there. ``trend`` is left out when there is none."""
        known, at = topics.told(name, now_ms)
        made_of = (known, trend, attention)
        kept = self._kept.get(name)
        text = kept[1] if kept is not None and kept[0] == made_of else self._write(made_of, at)
        return text, f',"at":{at}}}'

    def _write(self, made_of: MadeOf, at: int) -> str:
        known, trend, attention = made_of
        row = row_of(*known, at)
        del row["at"]
        if trend is not None:
            row["trend"] = trend
        row["attention"] = None
        if attention is not None:
            row["attention"] = {"severity": attention[0], "cause": attention[1]}
        name, text = known[0], text_of(row)[:-1]
        self._kept.pop(name, None)
        if len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[name] = made_of, text
        return text
