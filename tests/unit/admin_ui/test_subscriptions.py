"""Changes of a subscription through the console's services: one or many partitions, refusals, lost answers, undo."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from django.core import signing

from admin_ui import confirming
from admin_ui.subscriptions import services, tokens
from engine.admin.api.arguments import EARLIEST_MESSAGE, OnTopic
from engine.admin.api.cursors import MOVE_CURSOR, RESET_CURSOR, ResetCursor
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.admin.api.topics import TRIM
from engine.base.errors import Conflict, InvalidField, NotReady, Unsupported
from engine.base.names import TopicName
from engine.managed.cursors.last_change import KEPT_MS
from engine.rpc.operation import Operation
from engine.tenancy import topics
from tests.support.admin.bench import AdminBench, ShiftedClock

pytestmark = pytest.mark.virtual_time

PLAIN = TopicName.parse("persistent://public/default/orders")
MANY = TopicName.parse("persistent://public/default/many")
PARTS = [MANY.partition_at(i) for i in range(3)]


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
async def bench(clock: ShiftedClock) -> AsyncIterator[AdminBench]:
    made = AdminBench(clock)
    await made.start()
    await topics.create_partitioned(made.store, MANY, 3)
    for name in (PLAIN, *PARTS):
        args = CreateSubscription(name, "s", EARLIEST_MESSAGE)
        await made.admin.call(CREATE_SUBSCRIPTION, args)
    yield made
    await made.close()


def confirmed(previewed: dict[str, Any], topic: TopicName, change: Any) -> tokens.Confirmed:
    return tokens.read("standalone", previewed["token"], str(topic), "s", change, "alice")


async def preview(bench: AdminBench, topic: TopicName, change: Any, **how: Any) -> dict[str, Any]:
    return await services.preview(bench.engine, topic, "s", change, "alice", **how)


async def apply(
    bench: AdminBench, previewed: dict[str, Any], topic: TopicName, change: Any
) -> services.ChangeResult:
    return await services.apply(bench.engine, topic, confirmed(previewed, topic, change))


async def backlogs(bench: AdminBench, *names: TopicName) -> list[int]:
    loaded = [await bench.loaded(name) for name in names]
    return [topic.subscriptions["s"].cursor.backlog_entries() for topic in loaded]


async def move_back(bench: AdminBench, topic: TopicName) -> None:
    await bench.admin.call(RESET_CURSOR, ResetCursor(topic, "s", timestamp_ms=0))


async def test_exactly_the_previewed_entries_are_discarded(bench: AdminBench) -> None:
    for index, part in enumerate(PARTS):
        await bench.publish(part, 10 + index)
    previewed = await preview(bench, MANY, "skip-all")
    assert (previewed["lost"], previewed["again"], previewed["entries"]) == (33, 0, 33)
    assert (previewed["direction"], previewed["exact"]) == ("forward", True)
    assert [part["lost"] for part in previewed["parts"]] == [10, 11, 12]
    assert previewed["span"] == {"from": 1_000, "to": 12_000}
    for part in PARTS:
        await bench.publish(part, 5)
    done = await apply(bench, previewed, MANY, "skip-all")
    assert (done.status, done.body["done"], done.body["lost"]) == (200, True, 33)
    assert await backlogs(bench, *PARTS) == [5, 5, 5]
    undone = await services.undo(bench.engine, MANY, "s", "bob", done.body["undo"])
    assert (undone.status, undone.body["again"]) == (200, 33)
    assert await backlogs(bench, *PARTS) == [15, 16, 17]
    (last,) = (await services.changes(bench.engine, MANY))["changes"]
    assert (last["change"], last["undoes"], last["by"]) == ("undo", done.body["id"], "bob")
    assert (last["parts"], last["again"]) == ([0, 1, 2], 33)


async def test_the_direction_is_forward_whatever_the_change_is_called(bench: AdminBench) -> None:
    await bench.publish(PLAIN, 10)
    previewed = await preview(bench, PLAIN, "reset", timestamp=7_000)
    assert (previewed["direction"], previewed["lost"], previewed["again"]) == ("forward", 6, 0)
    await apply(bench, previewed, PLAIN, "reset")
    previewed = await preview(bench, PLAIN, "reset", timestamp=2_000)
    assert (previewed["direction"], previewed["lost"], previewed["again"]) == ("back", 0, 5)
    assert (await preview(bench, PLAIN, "reset", timestamp=7_000))["direction"] == "none"


async def test_nothing_is_changed_when_one_partition_was_moved(bench: AdminBench) -> None:
    for part in PARTS:
        await bench.publish(part, 10)
    (await bench.loaded(PARTS[1])).subscriptions["s"].moves.pass_over(
        (await bench.loaded(PARTS[1])).log.last_confirmed
    )
    previewed = await preview(bench, MANY, "skip-all")
    await move_back(bench, PARTS[1])
    done = await apply(bench, previewed, MANY, "skip-all")
    assert done.status == 409
    assert "moved since the preview" in done.body["reason"]
    (bad,) = [part for part in done.body["parts"] if "why" in part]
    assert (bad["partition"], bad["why"], bad["entries"]) == (1, "moved", 10)
    assert await backlogs(bench, *PARTS) == [10, 10, 10]


def silent(bench: AdminBench, *, after: bool) -> Callable[[], None]:
    """Make the broker unavailable at the next real change, before it or ``after``. Return a function that ends that."""
    ask = bench.admin._rpc._request

    async def broken(url: str, operation: Operation[Any, Any], body: bytes) -> Any:
        if operation is not MOVE_CURSOR or b'"dry": true' in body:
            return await ask(url, operation, body)
        if after:
            await ask(url, operation, body)
        raise NotReady("Broker did not answer; the change may have happened")

    bench.admin._rpc._request = broken  # type: ignore[method-assign]

    def heal() -> None:
        bench.admin._rpc._request = ask  # type: ignore[method-assign]

    return heal


@pytest.mark.parametrize("after", [False, True])
async def test_a_lost_answer_is_no_success_and_the_change_list_shows_the_outcome(
    bench: AdminBench, after: bool
) -> None:
    await bench.publish(PLAIN, 10)
    previewed = await preview(bench, PLAIN, "skip-all")
    heal = silent(bench, after=after)
    done = await apply(bench, previewed, PLAIN, "skip-all")
    assert (done.status, done.body["done"]) == (503, False)
    assert "not known" in done.body["reason"]
    heal()
    changes = (await services.changes(bench.engine, PLAIN))["changes"]
    assert [change["id"] for change in changes] == ([done.body["id"]] if after else [])
    assert await backlogs(bench, PLAIN) == [0 if after else 10]
    again = await apply(bench, previewed, PLAIN, "skip-all")
    assert again.status == (409 if after else 200)


async def test_an_undo_that_is_not_clean_is_previewed_first(bench: AdminBench) -> None:
    await bench.publish(PLAIN, 10)
    done = await apply(bench, await preview(bench, PLAIN, "skip-all"), PLAIN, "skip-all")
    await move_back(bench, PLAIN)
    refused = await services.undo(bench.engine, PLAIN, "s", "alice", done.body["id"])
    assert refused.status == 409
    assert "Another user moved the subscription" in refused.body["reason"]
    previewed = await preview(bench, PLAIN, "undo", undo=done.body["id"])
    assert previewed["moved"] == 10
    assert (await apply(bench, previewed, PLAIN, "undo")).status == 200


async def test_an_undo_reports_how_many_entries_were_deleted(
    bench: AdminBench, clock: ShiftedClock
) -> None:
    await bench.publish(PLAIN, 10)
    done = await apply(bench, await preview(bench, PLAIN, "skip-all"), PLAIN, "skip-all")
    assert done.body["undo_until"] > clock.wall_ms()
    await bench.restart()
    await bench.publish(PLAIN, 1)
    clock.ahead_ms = KEPT_MS
    await bench.admin.call(TRIM, OnTopic(PLAIN))
    refused = await services.undo(bench.engine, PLAIN, "s", "alice", done.body["id"])
    assert (refused.status, refused.body["reason"]) == (
        409,
        "10 of the entries were deleted since then and cannot be restored",
    )


async def test_a_change_without_effect_leaves_an_earlier_change_to_be_undone(
    bench: AdminBench,
) -> None:
    for name in PARTS:
        await bench.publish(name, 10)
    first, second = [await preview(bench, MANY, "skip-all") for _ in range(2)]
    assert first["kept_ms"] == KEPT_MS
    done = await apply(bench, first, MANY, "skip-all")
    empty = await apply(bench, second, MANY, "skip-all")
    assert (empty.status, empty.body["lost_entries"], empty.body["meanwhile"]) == (200, 0, 30)
    assert (empty.body["undo"], empty.body["undo_until"]) == (None, None)
    (last,) = (await services.changes(bench.engine, MANY))["changes"]
    assert (last["id"], last["undo_until"]) == (done.body["id"], done.body["undo_until"])
    undone = await services.undo(bench.engine, MANY, "s", "alice", done.body["id"])
    assert undone.body["again_entries"] == 30


async def test_partitions_where_nothing_changed_are_no_obstacle_to_undo(bench: AdminBench) -> None:
    await bench.publish(PARTS[0], 10)
    done = await apply(bench, await preview(bench, MANY, "skip-all"), MANY, "skip-all")
    assert done.body["undo"] == done.body["id"]
    undone = await services.undo(bench.engine, MANY, "s", "alice", done.body["id"])
    assert (undone.status, await backlogs(bench, *PARTS)) == (200, [10, 0, 0])


async def test_skipping_a_number_of_entries_is_refused_on_a_partitioned_topic(
    bench: AdminBench,
) -> None:
    with pytest.raises(Unsupported, match="partitioned topic is not allowed"):
        await preview(bench, MANY, "skip", count=1)


async def test_a_partition_can_be_changed_by_its_own_name(bench: AdminBench) -> None:
    await bench.publish(PARTS[2], 10)
    done = await apply(bench, await preview(bench, PARTS[2], "skip", count=4), PARTS[2], "skip")
    assert (done.status, done.body["parts"][0]["partition"]) == (200, None)
    assert await backlogs(bench, *PARTS) == [0, 0, 6]


async def test_changes_at_the_same_time_do_not_mix(bench: AdminBench) -> None:
    await bench.publish(PLAIN, 10)
    previews = [await preview(bench, PLAIN, "skip", count=n) for n in (2, 5)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(apply(bench, shown, PLAIN, "skip")) for shown in previews]
    done = [task.result() for task in tasks]
    assert (
        sum(result.body["lost"] for result in done if result.status == 200)
        == 10 - (await backlogs(bench, PLAIN))[0]
    )


def test_a_token_is_of_one_change_of_one_user_and_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = tokens.Confirmed(str(PLAIN), "s", "skip-all", "alice", {"-1": {"lost": 1}})
    token = tokens.sign("standalone", made)
    assert token is not None
    assert tokens.read("standalone", token, str(PLAIN), "s", "skip-all", "alice") == made
    with pytest.raises(Conflict, match="Another user"):
        tokens.read("standalone", token, str(PLAIN), "s", "skip-all", "bob")
    for wrong in ((str(MANY), "s", "skip-all"), (str(PLAIN), "t", "skip-all")):
        with pytest.raises(InvalidField, match="another change"):
            tokens.read("standalone", token, wrong[0], wrong[1], "skip-all", "alice")
    with pytest.raises(InvalidField, match="another change"):
        tokens.read("standalone", token, str(PLAIN), "s", "reset", "alice")
    with pytest.raises(InvalidField, match="another change"):
        tokens.read("west", token, str(PLAIN), "s", "skip-all", "alice")
    with pytest.raises(InvalidField, match="as the preview answered"):
        tokens.read("standalone", token[:-1] + "x", str(PLAIN), "s", "skip-all", "alice")
    with pytest.raises(InvalidField, match="as the preview answered"):
        tokens.read("standalone", signing.dumps({"a": 1}), str(PLAIN), "s", "skip-all", "alice")
    monkeypatch.setattr(confirming, "PREVIEW_AGE_MAX_S", -1)
    with pytest.raises(Conflict, match="older than"):
        tokens.read("standalone", token, str(PLAIN), "s", "skip-all", "alice")
    monkeypatch.setattr(confirming, "TOKEN_BYTES_MAX", 10)
    assert tokens.sign("standalone", made) is None
