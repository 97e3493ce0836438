"""Rows of the topic list as JSON texts. A text is made once for all readers and used until more than its time
changes."""

from gateway.http.bodies import text_of
from gateway.services.index.rows import row_of
from gateway.services.index.topic_index import Known, TopicIndex

Trend = tuple[int | None, ...]
Cause = tuple[str, str]
MadeOf = tuple[Known, Trend | None, Cause | None]

KEPT_MAX = 16_384
"""Maximum of texts; about 10 MB."""


class RowTexts:
    """Texts of rows, for one event loop. The texts that were made the longest ago are removed first."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[MadeOf, str]] = {}
        """Values that a row was made of, and its text without the end, which is the time. They are plain tuples, which
        the garbage collector does not visit again."""

    def __len__(self) -> int:
        return len(self._texts)

    def row(
        self,
        topics: TopicIndex,
        name: str,
        now_ms: int,
        trend: Trend | None,
        attention: Cause | None,
    ) -> tuple[str, str]:
        """Return the row without its end, a text that is the same object until something changes, and the end. Without
        a ``trend`` the row has none. Raises KeyError when the topic is not there."""
        known, at = topics.content_of(name, now_ms)
        made_of = (known, trend, attention)
        cached = self._texts.get(name)
        text = (
            cached[1] if cached is not None and cached[0] == made_of else self._write(made_of, at)
        )
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
        self._texts.pop(name, None)
        if len(self._texts) >= KEPT_MAX:
            del self._texts[next(iter(self._texts))]
        self._texts[name] = made_of, text
        return text
