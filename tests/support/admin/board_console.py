"""A board of the console over real indexes, with a clock of the test."""

from typing import Any

from engine.admin.api.rows import ROW_COLUMNS, SubscriptionCell
from engine.auth.viewer import ALL
from gateway.services.attention.board import AttentionList, Board
from gateway.services.attention.findings import Findings
from gateway.services.attention.part_items import Instance
from gateway.services.feeds.row_list import RowChanges
from gateway.services.health.hops import Hops
from gateway.services.index.topic_index import TopicIndex

T = "persistent://t/n/"
BOOKIES = [{"id": "k:1", "state": "writable"}]
BROKERS = [{"id": "b:1", "state": "up", "topics": 3}]


class Console:
    """A board over real indexes, at a time of the test's own."""

    def __init__(self) -> None:
        self.now = 1_000_000_000
        self.topics = TopicIndex()
        self.findings = Findings()
        self.board = Board(self.findings)
        self.hops = Hops(lambda: self.now)
        self.rows: list[list[Any]] = []
        self.whole = True
        self.brokers = BROKERS
        self.bookies = BOOKIES
        self.topics.on_clients = self.board.clients_changed

    def topic(self, name: str, *, partitions: int = 0, **values: int) -> None:
        row = [T + name, *(values.get(column, 0) for column in ROW_COLUMNS)]
        self.topics.apply("b:1", RowChanges(self.now, [row], []))

    def lag(self, name: str, sub: str, cause: str, backlog: int | None = 500, **more: Any) -> None:
        severity = more.pop("severity", "warning")
        growth = more.pop("growth", 0)
        lag = [cause, severity, self.now - 60_000, growth, more]
        self.rows.append([T + name, [*SubscriptionCell(sub, backlog, 0, lag)]])
        changes = RowChanges(1, self.rows, [])
        self.findings.apply("b:1", changes)

    def report_all(self) -> None:
        """Report ``rows`` as the complete list: other topics are gone."""
        gone = set(self.findings.reported("b:1")) - {row[0] for row in self.rows}
        self.findings.apply("b:1", RowChanges(self.now, self.rows, [*gone]))

    def found(self, seconds: int = 1, *, known: bool = True, start: str = "") -> AttentionList:
        for _ in range(seconds):
            self.now += 1_000
            instance = Instance(self.hops.bad, self.brokers, self.bookies)
            self.board.round(self.topics, self.now, whole=self.whole, instance=instance)
        return self.board.overview(ALL, "c", self.now, known=known, instance=instance, start=start)

    def needs(self, ensemble: int, ack: int, topics: int = 0, broker: str = "b:1") -> None:
        rows = [[ensemble, ensemble, ack, topics, 1]] if topics else []
        answer = {"session_ms": 5_000, "default": [ensemble, ensemble, ack], "topics": rows}
        self.board.needs.report(broker, answer)

    def bookie(self, number: int, state: str, **more: Any) -> None:
        self.bookies = [bookie for bookie in self.bookies if bookie["id"] != f"bookie-{number}"]
        self.bookies = [*self.bookies, {"id": f"bookie-{number}", "state": state, **more}]

    def causes(self, seconds: int = 1) -> list[str]:
        return [item["cause"] for item in self.found(seconds)["items"]]
