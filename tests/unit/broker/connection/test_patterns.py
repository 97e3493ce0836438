"""Patterns of clients are matched in linear time, or left to the client."""

import asyncio

import pytest

from engine.base.regex.linear import LinearRegex
from engine.broker.connection import patterns
from engine.broker.connection.lookups import filter_topics
from engine.broker.connection.patterns import (
    PatternError,
    compile_pattern,
    matching,
    topics_hash,
)
from engine.broker.errors import MetadataError

TOPICS = [
    "persistent://t/n/alpha",
    "persistent://t/n/beta-partition-0",
    "persistent://t/n/beta-partition-1",
]


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)b", "a{1,1000}", "a*+b", r"\pL*"])
def test_patterns_without_a_linear_time_match_are_left_to_the_client(pattern: str) -> None:
    assert compile_pattern(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [
        *("t/n/.*", "t/n/[*+a-z]+", r"t/n/\w+\*", "t/n/(a|b).*", "(?:x)?t.*"),
        *("(a+)+b", "a*b*c*d", "(?:a|b)*c", r"t/n/\Qa.b\E-.*", "(?i)T/n/a{2}"),
    ],
)
def test_ordinary_patterns_are_matched(pattern: str) -> None:
    assert isinstance(compile_pattern(pattern), LinearRegex)


@pytest.mark.parametrize("pattern", ["([bad", "*", "a**", "(" * 40])
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


async def test_filter_ignores_scheme_and_partition_suffix() -> None:
    for pattern in ("persistent://t/n/be.*a", "t/n/be.*a"):
        assert await filter_topics(TOPICS, pattern) == TOPICS[1:]


async def test_a_pattern_that_would_backtrack_for_minutes_is_matched_at_once() -> None:
    names = ["persistent://t/n/" + "a" * 400]
    assert await filter_topics(names, "t/n/.*.*" + "a?" * 14 + "b") == []
    assert await filter_topics(names, "t/n/(a+)+") == names


async def test_others_run_while_names_are_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "STEP_S", -1.0)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_turns())
    names = [f"n{i}" for i in range(50)]
    assert await matching(names, lambda name: name.endswith("7")) == [
        "n7",
        "n17",
        "n27",
        "n37",
        "n47",
    ]
    assert turns >= len(names) - 1
    assert await matching(names, lambda name: True, limit_s=-1.0) is None
    counting.cancel()


async def test_filter_needs_the_whole_name() -> None:
    assert await filter_topics(TOPICS, "t/n/al") == []


async def test_filter_refuses_an_invalid_pattern() -> None:
    with pytest.raises(MetadataError, match="Invalid topics pattern"):
        await filter_topics(TOPICS, "([bad")


async def test_names_too_long_to_match_are_left_to_the_client() -> None:
    assert await filter_topics(["persistent://t/n/" + "a" * 600], "t/n/.*") is None


@pytest.mark.parametrize(
    ("topics", "digest"),
    [
        ([], "00000000"),
        (["persistent://public/default/a"], "e4a876e3"),
        (["persistent://public/default/b", "persistent://public/default/a"], "c7559e98"),
        (["persistent://my-property/my-ns/pattern-topic-1"], "0d0602ed"),
        ([f"persistent://my-property/my-ns/pattern-topic-{i}" for i in (1, 2, 3)], "90d4a04a"),
    ],
)
def test_topics_hash_agrees_with_published_vectors(topics: list[str], digest: str) -> None:
    assert topics_hash(topics) == digest
