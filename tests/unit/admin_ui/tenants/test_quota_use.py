"""Use of a namespace's limits: the fullest first, upper bounds as such, and what is not known as null."""

from typing import Any

import pytest

from admin_ui.tenants.quota_use import has_size_quota, quotas_of
from gateway.services.index.sums import TenantNumbers

NOW = 10_000_000
NUMBERS: TenantNumbers = {
    **{"topics": 4, "unknown": 0, "backlog": 1, "backlog_messages": 1, "storage_bytes": 900},
    **{"backlog_estimated": 0, "backlog_unmeasured": 0, "msg_rate_in": 0.0, "msg_rate_out": 0.0},
    "oldest_at": NOW - 1_800_000,
}  # type: ignore[typeddict-item]
QUOTA = {"limitSize": 1_000, "limitTime": 3_600, "policy": "producer_exception"}


def policies(**kinds: Any) -> dict[str, Any]:
    return {"backlog_quota_map": kinds}


def used(stored: dict[str, Any], **given: Any) -> list[tuple[str, float | None]]:
    known: dict[str, Any] = {"topics": 4, "numbers": NUMBERS, "largest_bytes": 600, "now_ms": NOW}
    return [(row["name"], row["share"]) for row in quotas_of(stored, **{**known, **given})]


def test_the_fullest_limit_is_first_and_a_bound_is_said_to_be_one() -> None:
    stored = policies(destination_storage=QUOTA, message_age=QUOTA)
    stored["max_topics_per_namespace"] = 5
    assert used(stored) == [("topics", 0.8), ("backlog size", 0.6), ("backlog age", 0.5)]
    at_most = {
        row["name"]: row["at_most"]
        for row in quotas_of(stored, topics=4, numbers=NUMBERS, largest_bytes=600, now_ms=NOW)
    }
    assert at_most == {"topics": False, "backlog size": True, "backlog age": False}


@pytest.mark.parametrize("numbers", [None, {**NUMBERS, "unknown": 1}])
def test_use_is_not_known_while_a_topic_is_not(numbers: TenantNumbers | None) -> None:
    stored = policies(destination_storage=QUOTA, message_age=QUOTA)
    assert used(stored, numbers=numbers) == [("backlog size", None), ("backlog age", None)]


def test_nothing_unacknowledged_uses_nothing_and_an_unknown_age_is_not_zero() -> None:
    stored = policies(message_age=QUOTA)
    assert used(stored, numbers={**NUMBERS, "oldest_at": 0}) == [("backlog age", 0.0)]
    assert used(stored, numbers={**NUMBERS, "oldest_at": None}) == [("backlog age", None)]


@pytest.mark.parametrize("limit", [-1, 0])
def test_a_limit_that_limits_nothing_is_none(limit: int) -> None:
    quota = {**QUOTA, "limitSize": limit, "limitTime": limit}
    stored = policies(destination_storage=quota, message_age=quota)
    assert not has_size_quota(stored)
    assert used({**stored, "max_topics_per_namespace": 0}) == []
