"""Late subscriptions among the problems: what becomes an error, and what is said of it."""

from typing import Any

from engine.admin.api.rows import AGE_TARGET, AGE_TARGET_MAX_S, SubscriptionCell, age_target_s
from engine.auth.viewer import ALL
from gateway.services.attention.overdue import late_findings, with_late
from gateway.services.attention.part_items import Instance
from gateway.services.subscriptions.subscription_index import SubscriptionIndex
from tests.support.admin.board_console import BOOKIES, BROKERS, Console, T

NAME = f"{T}a"
INSTANCE = Instance((), BROKERS, BOOKIES)


def index_of(**cell: Any) -> SubscriptionIndex:
    subscriptions = SubscriptionIndex()
    subscriptions.place(NAME, NAME)
    values = {"name": "s", "backlog": 5, "rate_out": 0, "messages": 50, "target_s": 30} | cell
    subscriptions.report(NAME, [SubscriptionCell(**values)])
    return subscriptions


def test_a_subscription_is_late_since_its_oldest_message_passed_the_target() -> None:
    late = late_findings(index_of(oldest_at=100_000), 131_000)
    assert late[NAME, "s"].since_ms == 130_000
    assert late[NAME, "s"].evidence == {
        **{"oldest_at": 100_000, "target_s": 30, "messages": 50, "estimated": False},
    }
    assert late_findings(index_of(oldest_at=100_000), 130_000) == {}


def test_unknown_or_missing_ages_and_targets_are_not_late() -> None:
    for cell in ({"oldest_at": -1}, {"oldest_at": 0}, {"oldest_at": 1, "target_s": 0}):
        assert late_findings(index_of(**cell), 1 << 50) == {}


def test_unmeasured_messages_are_not_counted() -> None:
    late = late_findings(index_of(oldest_at=1, unmeasured=2), 1 << 50)
    assert "messages" not in late[NAME, "s"].evidence


def overview(console: Console, subscriptions: SubscriptionIndex) -> list[tuple[str, str]]:
    console.found()
    late = late_findings(subscriptions, console.now)
    console.board.round(console.topics, console.now, whole=True, late=late)
    items = console.board.overview(ALL, "c", console.now, known=True, instance=INSTANCE)["items"]
    return [(item["cause"], item["severity"]) for item in items]


def test_lateness_alone_is_an_error_and_makes_another_cause_one(console: Console) -> None:
    subscriptions = index_of(oldest_at=console.now - 60_000)
    console.topic("a", consumers=1)
    assert overview(console, subscriptions) == [("late", "error")]
    assert console.board.cause_of(NAME) == ("error", "late")
    console.lag("a", "s", "no-consumer")
    assert overview(console, subscriptions) == [("no-consumer", "error")]
    assert "late" not in {cause for cause, _ in overview(console, SubscriptionIndex())}


def test_a_problem_of_another_topic_keeps_its_severity() -> None:
    late = late_findings(index_of(oldest_at=1), 1 << 50)
    assert [problem.severity for problem in with_late([], late)] == ["error"]
    assert with_late([], late, [f"{T}b"]) == []


def test_a_target_is_a_whole_number_of_seconds_within_its_limit() -> None:
    texts = {"300": 300, "": 0, "5m": 0, "-1": 0, "1.5": 0, "\N{SUPERSCRIPT TWO}": 0, "9" * 40: 0}
    assert {text: age_target_s({AGE_TARGET: text}) for text in texts} == texts
    assert age_target_s({AGE_TARGET: str(AGE_TARGET_MAX_S + 1)}) == AGE_TARGET_MAX_S
    assert age_target_s({}) == 0
