"""Verbs that tools call by themselves: a topic truncated, backlog quotas looked at now."""

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE
from engine.base.errors import NotFound, NotReady, PreconditionFailed
from engine.base.names import TopicName
from engine.broker.errors import ServiceNotReady
from engine.broker.topics.quotas import BacklogQuotas
from engine.tenancy.namespaces import set_policy
from engine.tenancy.policies.table import RETENTION
from gateway.services.admin import brokers, existence, partitioned_topics, subscriptions, topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

PLAIN = TopicName.parse("persistent://public/default/plain")
OTHER = TopicName.parse("persistent://public/default/other")
MANY = TopicName.parse("persistent://public/default/many")


async def ledgers(bench: AdminBench, name: TopicName) -> list[int]:
    """Return the number of entries of each ledger."""
    log = (await bench.loaded(name)).log
    return [ledger.entries for ledger in log.stats().ledgers]


@pytest.mark.parametrize("name", [PLAIN, MANY])
async def test_truncating_leaves_the_open_ledger_and_no_backlog(
    bench: AdminBench, name: TopicName
) -> None:
    forever = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    await set_policy(bench.store, name.namespace, RETENTION, RETENTION.read(forever), cluster="")
    if name is MANY:
        await partitioned_topics.create(bench.engine, name, 2, {})
    else:
        await topics.create(bench.engine, name, {})
    parts = await existence.members(bench.engine, name)
    start = EARLIEST_MESSAGE
    await subscriptions.create(bench.engine, name, "s", start, {}, replicated=False)
    for _ in range(2):
        for part in parts:
            assert not (await bench.publish(part, 5)).failures
        await bench.restart()
    for part in parts:
        assert not (await bench.publish(part, 1)).failures
        assert sum(await ledgers(bench, part)) == 11
    await topics.trim(bench.engine, name)
    assert [len(await ledgers(bench, part)) for part in parts] == [3] * len(parts)
    await topics.truncate(bench.engine, name)
    for part in parts:
        assert len(await ledgers(bench, part)) == 1
        assert (await bench.loaded(part)).subscriptions["s"].cursor.backlog_entries() == 0
        assert not (await bench.publish(part, 1)).failures


async def test_truncating_is_for_persistent_topics_that_are_there(bench: AdminBench) -> None:
    with pytest.raises(NotFound):
        await topics.truncate(bench.engine, PLAIN)
    with pytest.raises(PreconditionFailed, match="unsupport truncate"):
        await topics.truncate(bench.engine, TopicName.parse("non-persistent://public/default/x"))


async def test_backlog_quotas_of_all_topics_are_checked_at_once(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check all topics though one of them cannot be judged, which is reported."""
    for name in (PLAIN, OTHER):
        await topics.create(bench.engine, name, {})
    checked: list[str] = []
    failing: list[str] = []

    async def check(quotas: BacklogQuotas) -> None:
        name = str(quotas._host.name)
        checked.append(name)
        if name in failing:
            raise ServiceNotReady("not now")

    monkeypatch.setattr(BacklogQuotas, "check", check)
    await brokers.check_quotas(bench.engine)
    assert {str(PLAIN), str(OTHER)} <= set(checked)
    checked.clear()
    failing.append(str(PLAIN))
    with pytest.raises(NotReady, match=f"1 topics could not be checked, first {PLAIN}: not now"):
        await brokers.check_quotas(bench.engine)
    assert {str(PLAIN), str(OTHER)} <= set(checked)
