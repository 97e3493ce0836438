"""A cluster's figures that a test sets, and an evaluator over them."""

from typing import Any

import pytest

from engine.admin.api.rows import ROW_COLUMNS
from gateway.alerts.conditions import Observed, Outcome, evaluate
from gateway.alerts.definitions import Definition
from gateway.services.attention.part_items import Instance
from gateway.services.feeds.row_list import RowChanges
from gateway.services.geo.link_figures import LinkFigures
from gateway.services.subscriptions.subscription_index import SubscriptionIndex
from tests.support.admin.board_console import Console, T


class Alerts(Console):
    """Figures with rules over them."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[LinkFigures] = []
        self.subscriptions = SubscriptionIndex()
        self.current = True
        self.settled = True

    def full(self, name: str, **values: int) -> None:
        """Set figures of a topic by its full name."""
        row = [name, *(values.get(column, 0) for column in ROW_COLUMNS)]
        self.topics.apply("b:1", RowChanges(self.now, [row], []))

    def seen(self) -> Observed:
        return Observed(
            *("c", self.now, self.topics, self.findings, self.board, self.links),
            *(Instance(self.hops.bad, self.brokers, self.bookies), self.current, self.settled),
            self.subscriptions,
        )

    def outcome(self, tenant: str = "", **given: Any) -> Outcome:
        self.found()
        return evaluate(Definition.checked(given, tenant), self.seen())


@pytest.fixture
def alerts() -> Alerts:
    return Alerts()


__all__ = ["Alerts", "T"]
