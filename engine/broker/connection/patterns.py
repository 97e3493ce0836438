"""Topic patterns: regular expressions of clients, matched in linear time. Pure but for the pauses of ``matching``.

A client's pattern must not be able to hold up the broker, so what ``LinearRegex`` does not support (look-around,
back-references, large repeats) is not matched here: the broker sends the whole list and the client filters, which the
protocol provides for.
"""

import asyncio
import re
from collections.abc import Callable, Iterable

from engine.base.crc32c import crc32c
from engine.base.names import PARTITION_SUFFIX
from engine.base.regex.linear import LinearRegex
from engine.base.regex.syntax import RegexSyntaxError, UnsupportedRegexError

NAME_MAX = 512
"""Longer names are not matched here."""
STEP_S = 0.005
"""Matching that takes longer lets others run in between."""


class PatternError(ValueError):
    """The text is no regular expression."""


def compile_pattern(pattern: str) -> LinearRegex | None:
    """None for an expression that is not matched here. Raises PatternError."""
    try:
        return LinearRegex(pattern)
    except RegexSyntaxError as error:
        raise PatternError(str(error)) from error
    except UnsupportedRegexError:
        return None


def name_matcher(pattern: str, *, memo: bool) -> Callable[[str], bool] | None:
    """Whether a topic's full name, without scheme and partition suffix, matches ``pattern`` wholly (its own scheme is
    ignored); None for a pattern that is not matched here. Raises PatternError.

    ``memo``: faster for many names, and larger: for a matcher that is soon dropped.
    """
    regex = compile_pattern(pattern.split("://", 1)[-1])
    if regex is None:
        return None
    matches = regex.matcher() if memo else regex.fullmatch
    return lambda topic: matches(_PARTITION.sub("", topic.split("://", 1)[-1]))


_PARTITION = re.compile(rf"{PARTITION_SUFFIX}\d+\Z")


async def matching(
    names: Iterable[str], matches: Callable[[str], bool], limit_s: float | None = None
) -> list[str] | None:
    """Those of ``names`` that match, letting others run in between; None when that took longer than ``limit_s``.

    Cancel-safe.
    """
    loop = asyncio.get_running_loop()
    began_s = paused_s = loop.time()
    kept: list[str] = []
    for name in names:
        if matches(name):
            kept.append(name)
        now_s = loop.time()
        if now_s - paused_s > STEP_S:
            if limit_s is not None and now_s - began_s > limit_s:
                return None
            await asyncio.sleep(0)
            paused_s = loop.time()
    return kept


def topics_hash(topics: list[str]) -> str:
    """CRC32C of the sorted names joined by commas, its bytes little-endian in hexadecimal; none at all: 00000000."""
    if not topics:
        return "00000000"
    return int(crc32c(",".join(sorted(topics)).encode())).to_bytes(4, "little").hex()
