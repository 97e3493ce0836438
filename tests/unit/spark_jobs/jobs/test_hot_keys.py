"""Hot keys with known answers, and the balance of consumers against the broker's own division of keys."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine.broker.dispatch.choose.keys import (
    SLOTS,
    KeyHalves,
    KeyPolicy,
    KeyRing,
    ring_slot_of,
    slot_of,
)
from engine.wire.batches import Message, pack_entry
from spark_jobs.jobs.hot_keys import HOT_KEYS
from spark_jobs.jobs.hot_keys.balance import Selector, balances, recommended
from spark_jobs.jobs.hot_keys.counting import COLUMNS, cells_of, ranked
from spark_jobs.jobs.hot_keys.job import result_of
from spark_jobs.pulsar_source.partitions import LedgerRange
from tests.unit.spark_jobs.jobs.packed import BEGIN_MS, HOSTILE, cells_of_parts, chunks, single

DEFAULTS = {
    key: value["default"]
    for key, value in HOT_KEYS.parameters["properties"].items()
    if "default" in value
}


def result(parts: Sequence[bytes], **parameters: Any) -> Any:
    given = DEFAULTS | {"topic": "persistent://t/n/x"} | parameters
    cells = cells_of_parts(parts, COLUMNS, cells_of)
    reduced = ranked(cells, given["top"], Selector(given["selector"]))
    return result_of(reduced, given, [LedgerRange(1, 0, len(parts) - 1)])


def figures(profile: Any) -> dict[str, Any]:
    return {row["key"]: row["value"] for row in profile["summary"]}


def rows(profile: Any, key: str) -> list[Any]:
    return next(table["rows"] for table in profile["tables"] if table["key"] == key)


def test_a_hot_key_limits_the_consumers_worth_having() -> None:
    keys = ["hot" if i % 2 else f"cold-{i % 97}" for i in range(1000)]
    given = result([single(b"xx", key=key) for key in keys])
    facts = figures(given)
    assert (facts["messages"], facts["keys"], facts["key_share"]) == (1000, 98, 50.0)
    assert facts["consumers"] <= 6
    assert 1.5 < facts["speedup"] < 2.0
    assert given["conclusions"][0].startswith(f"Use {facts['consumers']} consumers:")
    assert given["conclusions"][1] == (
        "The busiest of 98 keys is 'hot' with 50 % of the messages: no number of consumers is more than 2 times as"
        " fast as one."
    )
    assert rows(given, "hot_keys")[0] == ["hot", 500, 50.0, 1000, ring_slot_of(b"hot"), "text"]


def test_each_number_of_consumers_has_the_busiest_share_that_the_broker_would_give_it() -> None:
    counts = Counter({f"k{i}".encode(): 1 + i % 7 for i in range(300)})
    for selector, of_key in ((Selector.SPLIT, slot_of), (Selector.HASHING, ring_slot_of)):
        slots = np.zeros(SLOTS, np.int64)
        for key, count in counts.items():
            slots[of_key(key)] += count
        expected = []
        for naming in range(5 if selector is Selector.HASHING else 1):
            keys: Any = KeyRing(100) if selector is Selector.HASHING else KeyHalves()
            for consumer in range(1, 5):
                keys.add(consumer, f"consumer-{naming}-{consumer}", KeyPolicy())
            shares = Counter[int]()
            for key, count in counts.items():
                shares[keys.owner(of_key(key))] += count
            expected.append(max(shares.values()) / counts.total())
        fourth = balances(slots, 0, 6, selector)[3]
        assert fourth.busiest == pytest.approx(sum(expected) / len(expected))
        assert 0 < fourth.moved < 0.7


def test_even_keys_are_worth_every_consumer() -> None:
    slots = np.ones(SLOTS, np.int64)
    given = balances(slots, 0, 8, Selector.SPLIT)
    assert [balance.speedup for balance in given][7] == pytest.approx(8, rel=0.01)
    assert given[1].moved == pytest.approx(0.5, rel=0.01)
    assert recommended(given).consumers == 8
    even = result([single(b"", key=f"k{i}") for i in range(3000)], consumers_max=2)
    assert even["conclusions"][0].startswith("Keys are even: each consumer up to 2 adds work")


def test_messages_without_keys_are_spread_and_batches_with_several_keys_are_named() -> None:
    mixed = pack_entry(
        [Message(b"", key="a"), Message(b"", key="b")], producer_name="p", publish_ms=BEGIN_MS
    )
    uniform = pack_entry([Message(b"", key="a")] * 3, producer_name="p", publish_ms=BEGIN_MS)
    given = result([mixed, uniform, single(b"")])
    facts = figures(given)
    assert (facts["messages"], facts["unkeyed"], facts["mixed_batches"]) == (6, 1, 1)
    assert any(
        text.startswith("50 % of the batches hold several keys.") for text in given["conclusions"]
    )
    unkeyed = result([single(b"")] * 4)
    assert unkeyed["conclusions"][0].startswith("No message has a key")
    assert figures(unkeyed)["key_share"] is None


def test_the_ordering_key_comes_before_the_key_and_bytes_are_shown_as_base64() -> None:
    given = result(
        [single(b"", key="a", ordering_key=b"\xff"), single(b"", key="aw==", key_is_base64=True)]
    )
    assert rows(given, "hot_keys") == [
        ["k", 1, 50.0, 0, ring_slot_of(b"k"), "text"],
        ["/w==", 1, 50.0, 0, ring_slot_of(b"\xff"), "base64"],
    ]


def test_hostile_entries_are_counted_and_break_nothing() -> None:
    facts = figures(result([*HOSTILE, *chunks(b"x" * 90, 3, key="c")]))
    assert facts["unreadable"] == 2
    assert (facts["messages"], facts["keys"]) == (13, 2)
    assert figures(result([b""]))["consumers"] is None
