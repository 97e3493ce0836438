"""A cache that stays within its bytes through any additions and removals."""

import random

from engine.schema.bounded_cache import BoundedCache


def test_the_least_recently_used_value_is_evicted_first() -> None:
    kept: BoundedCache[str, int] = BoundedCache(30)
    for number, name in enumerate("abc"):
        kept.put(name, number, 10)
    assert kept.get("a") == 0
    kept.put("d", 3, 10)
    assert [kept.get(name) for name in "abcd"] == [0, None, 2, 3]


def test_a_replaced_value_counts_once_and_a_too_large_one_is_not_kept() -> None:
    kept: BoundedCache[str, int] = BoundedCache(30)
    for weight in (10, 20, 5):
        kept.put("a", weight, weight)
    assert (kept.bytes, kept.get("a")) == (5, 5)
    kept.put("b", 0, 31)
    assert (kept.bytes, len(kept)) == (0, 0)
    kept.drop("nobody")


def test_bytes_are_bounded_and_add_up() -> None:
    rng = random.Random(1)
    kept: BoundedCache[int, int] = BoundedCache(1000)
    for _ in range(2000):
        key, weight = rng.randrange(60), rng.randrange(1, 120)
        if rng.random() < 0.2:
            kept.drop(key)
        else:
            kept.put(key, weight, weight)
        assert kept.bytes <= 1000
        assert kept.bytes == sum(kept.get(key) or 0 for key in range(60))
