"""Rows of the topic list as JSON texts. A text is made once for all readers and used until more than its time
changes."""

from gateway.http.bodies import KeptTexts, text_of
from gateway.services.index.rows import row_of
from gateway.services.index.topic_index import Known, TopicIndex

Trend = tuple[int | None, ...]
Cause = tuple[str, str]


class RowTexts(KeptTexts):
    """Texts of rows without their ends, which are the times."""

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
        text = self.text(
            name, (known, trend, attention), lambda: _written(known, at, trend, attention)
        )
        return text, f',"at":{at}}}'


def _written(known: Known, at: int, trend: Trend | None, attention: Cause | None) -> str:
    row = row_of(*known, at)
    del row["at"]
    if trend is not None:
        row["trend"] = trend
    row["attention"] = None
    if attention is not None:
        row["attention"] = {"severity": attention[0], "cause": attention[1]}
    return text_of(row)[:-1]
