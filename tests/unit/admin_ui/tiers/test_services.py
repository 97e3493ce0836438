"""The console shows where the ledgers of a topic are and what would be moved at which price, moves them, and finds
objects that no topic names."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from admin_ui.tiers.services import offload, orphans, tiers
from engine.admin.api.arguments import EARLIEST_MESSAGE
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.base.errors import PreconditionFailed, Unsupported
from engine.base.names import TopicName
from gateway.services.admin import topics
from tests.support.admin import bench as bench_of
from tests.support.admin.bench import AdminBench

TOPIC = TopicName.parse("persistent://public/default/t")
OBJECT = "00000000-0000-0000-0000-000000000001-ledger-9"


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AdminBench]:
    for name, value in {
        "MANAGED_LEDGER_OFFLOAD_DRIVER": "filesystem",
        "FILE_SYSTEM_URI": f"file://{tmp_path}/cold",
        "MANAGED_LEDGER_OFFLOAD_PRICE_PER_GB_MONTH": "0.02",
    }.items():
        monkeypatch.setitem(bench_of.QUICK, f"MAGNETAR_{name}", value)
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, TOPIC, {})
    await made.admin.call(
        CREATE_SUBSCRIPTION, CreateSubscription(TOPIC, "slow", EARLIEST_MESSAGE, {})
    )
    for _ in range(2):
        await made.publish(TOPIC, 3)
        await made.restart()
    yield made
    await made.close()


async def test_a_preview_has_the_bytes_that_would_be_moved_and_their_price(
    bench: AdminBench,
) -> None:
    answer = await tiers(bench.engine, TOPIC, None, None)
    assert answer["policy"]["store"].startswith("filesystem ")
    assert [(row["tier"], row["ledgers"]) for row in answer["sums"]] == [("bookies", 3)]
    preview = answer["preview"]
    closed = [row for row in answer["ledgers"] if row["closed_ms"]]
    assert (preview["ledgers"], preview["bytes"]) == (2, sum(row["bytes"] for row in closed))
    assert preview["store_cost"] == round(0.02 * preview["bytes"] / 1e9, 4)
    assert preview["bookies_cost"] is None
    kept = await tiers(bench.engine, TOPIC, closed[-1]["bytes"], None)
    assert [row["due"] for row in kept["ledgers"]] == [True, False, False]
    assert (await tiers(bench.engine, TOPIC, -1, -1))["preview"]["ledgers"] == 2


async def test_ledgers_are_moved_now_and_shown_in_both_places(bench: AdminBench) -> None:
    assert await offload(bench.engine, TOPIC, 0) == {"started": [str(TOPIC)]}

    async def present() -> dict[str, object]:
        answer = await tiers(bench.engine, TOPIC, None, None)
        state: dict[str, object] = answer["states"][0]
        return state

    while (await present())["status"] == "RUNNING":
        pass
    moved = await present()
    assert (moved["status"], moved["done_ledgers"], moved["error"]) == ("SUCCESS", 2, "")
    answer = await tiers(bench.engine, TOPIC, None, None)
    assert [row["tier"] for row in answer["ledgers"]] == ["both", "both", "bookies"]
    assert await offload(bench.engine, TOPIC, 0) == {"started": []}


async def test_objects_that_no_topic_names_are_counted_and_removed_on_request(
    bench: AdminBench, tmp_path: Path
) -> None:
    folder = tmp_path / "cold"
    folder.mkdir(exist_ok=True)
    for key in (OBJECT, f"{OBJECT}-index"):
        (folder / key).write_bytes(b"12345")
        os.utime(folder / key, (1, 1))
    [scan] = (await orphans(bench.engine, remove=False, age_s=3600))["buckets"]
    assert (scan["orphans"], scan["orphan_bytes"], scan["removed"]) == (2, 10, False)
    assert (folder / OBJECT).exists()
    [scan] = (await orphans(bench.engine, remove=True, age_s=3600))["buckets"]
    assert scan["removed"] is True
    assert not (folder / OBJECT).exists()


async def test_without_tiered_storage_nothing_is_moved() -> None:
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, TOPIC, {})
    answer = await tiers(made.engine, TOPIC, None, None)
    assert answer["policy"] is None
    with pytest.raises(PreconditionFailed, match="no tiered storage is configured"):
        await offload(made.engine, TOPIC, 0)
    with pytest.raises(Unsupported):
        await tiers(made.engine, TopicName.parse("non-persistent://public/default/t"), None, None)
    assert await orphans(made.engine, remove=True, age_s=3600) == {"buckets": []}
    await made.close()
