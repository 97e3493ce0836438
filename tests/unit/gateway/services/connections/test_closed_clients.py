"""Clients that a change of rights closes: sums over brokers before and after it, or not known."""

from typing import Any

import pytest

from engine.admin.api.losses import ChangedRecords
from engine.base.errors import NotReady
from engine.base.names import NamespaceName
from gateway.services.admin import losses
from gateway.services.admin.losses import changed_records, closed_since, open_losses, would_close

CHANGE = ChangedRecords("t", [])


def counts(producers: int, consumers: int, closed: tuple[int, int] = (0, 0)) -> dict[str, int]:
    return {
        **{"producers": producers, "consumers": consumers, "by_proxy": 0},
        **{"closed_producers": closed[0], "closed_consumers": closed[1]},
    }


class Brokers:
    """Brokers that give these answers in turn; the last one again and again."""

    def __init__(self, **answers: list[Any]) -> None:
        self._answers = answers
        self.admin = self

    async def brokers(self) -> list[str]:
        return list(self._answers)

    async def call_on(self, broker: str, operation: Any, args: Any) -> Any:
        answers = self._answers[broker]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def engine(**answers: list[Any]) -> Any:
    return Brokers(**answers)


async def test_the_counts_of_all_brokers_are_added() -> None:
    sums = await open_losses(engine(a=[counts(1, 2)], b=[counts(3, 0)]), CHANGE)
    assert would_close(sums) == {"producers": 4, "consumers": 2, "by_proxy": 0}
    assert would_close(await open_losses(engine(), CHANGE)) == {
        **{"producers": 0, "consumers": 0, "by_proxy": 0}
    }


async def test_the_count_is_not_known_while_a_broker_does_not_answer() -> None:
    assert await open_losses(engine(a=[counts(1, 2)], b=[NotReady("busy")]), CHANGE) is None
    assert would_close(None) is None
    assert await closed_since(engine(), CHANGE, None) is None
    gone = engine(a=[counts(1, 0), NotReady("gone")])
    assert await closed_since(gone, CHANGE, counts(1, 0)) is None


async def test_the_receipt_waits_until_none_is_open_any_more() -> None:
    brokers = engine(
        a=[counts(2, 1, (5, 5)), counts(1, 0, (6, 6)), counts(0, 0, (7, 6))],
        b=[counts(0, 0, (1, 1))],
    )
    before = counts(2, 1, (6, 6))
    assert await closed_since(brokers, CHANGE, before) == {"producers": 2, "consumers": 1}


async def test_clients_that_stay_open_are_not_reported_as_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(losses, "PATIENCE_S", 0.0)
    assert await closed_since(engine(a=[counts(1, 0)]), CHANGE, counts(1, 0)) is None


async def test_the_count_of_a_broker_that_was_restarted_is_not_known() -> None:
    assert await closed_since(engine(a=[counts(0, 0)]), CHANGE, counts(1, 0, (3, 0))) is None


def test_brokers_are_asked_with_the_parts_of_policies_that_give_rights() -> None:
    policies = {"auth_policies": {"namespace_auth": {}}, "subscription_auth_mode": None, "ttl": 3}
    asked = changed_records("t", ["own"], NamespaceName.of("t", "n"), policies)
    assert asked == ChangedRecords("t", ["own"], "t/n", {"auth_policies": {"namespace_auth": {}}})
    assert changed_records("t", ["own"], None, {}) == ChangedRecords("t", ["own"])
