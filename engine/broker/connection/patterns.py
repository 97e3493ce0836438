"""Topic patterns: regular expressions of clients, matched in linear time. Pure except for the pauses of ``matching``.

A client's pattern must not block the broker. Expressions that ``LinearRegex`` does not support (look-around,
back-references, large repeats) are therefore not matched here: the broker sends the full list and the client filters
it, as the protocol allows.
"""

import asyncio
import re
from collections.abc import Callable, Iterable

from engine.base.crc32c import crc32c
from engine.base.names import PARTITION_SUFFIX
from engine.base.regex.linear import LinearRegex
from engine.base.regex.syntax import RegexSyntaxError, UnsupportedRegexError

NAME_MAX = 512
"""Characters of the longest name that is matched here."""
STEP_S = 0.005
"""Time after which matching lets other tasks run."""


class PatternError(ValueError):
    """The text is not a regular expression."""


def compile_pattern(pattern: str) -> LinearRegex | None:
    """Compile an expression; None for one that is not matched here. Raises PatternError."""
    try:
        return LinearRegex(pattern)
    except RegexSyntaxError as error:
        raise PatternError(str(error)) from error
    except UnsupportedRegexError:
        return None


def name_matcher(pattern: str, *, memo: bool) -> Callable[[str], bool] | None:
    """Return a function that checks whether a topic's full name, without scheme and partition suffix, fully matches
    ``pattern`` (whose scheme is ignored); None for a pattern that is not matched here. Raises PatternError.

    With ``memo`` the function is faster for many names but uses more memory, for one that is soon dropped.
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
    """Return the ``names`` that match; None when that took longer than ``limit_s``. Other tasks run in between.

    Cancel-safe.
    """
    loop = asyncio.get_running_loop()
    began_s = paused_s = loop.time()
    matched: list[str] = []
    for name in names:
        if matches(name):
            matched.append(name)
        now_s = loop.time()
        if now_s - paused_s > STEP_S:
            if limit_s is not None and now_s - began_s > limit_s:
                return None
            await asyncio.sleep(0)
            paused_s = loop.time()
    return matched


def topics_hash(topics: list[str]) -> str:
    """Return the CRC32C of the sorted names joined by commas, its bytes little-endian in hexadecimal; 00000000 without
    names."""
    if not topics:
        return "00000000"
    return int(crc32c(",".join(sorted(topics)).encode())).to_bytes(4, "little").hex()
