"""Topic patterns: regular expressions of clients, matched only where that is sure to be cheap. Pure.

A client's pattern must not be able to hold up the broker. Python's matcher backtracks, so only patterns whose cost is
at most quadratic in a name's length are matched here: at most REPEATS_MAX unbounded repeats, none of a group, no
look-around, no back-reference. For all others the broker sends the whole list and the client filters, which the
protocol provides for.
"""

import re
from collections.abc import Callable

from engine.base.crc32c import crc32c
from engine.base.names import PARTITION_SUFFIX

REPEATS_MAX = 2
NAME_MAX = 512
"""Longer names are not matched here."""


class PatternError(ValueError):
    """The text is no regular expression."""


def compile_pattern(pattern: str) -> Callable[[str], bool] | None:
    """Whether a whole name matches ``pattern``; None when matching might take long. Raises PatternError."""
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(str(error)) from error
    if not _is_cheap(pattern):
        return None
    return lambda name: compiled.fullmatch(name) is not None


def name_matcher(pattern: str) -> Callable[[str], bool] | None:
    """Whether a topic's full name, without scheme and partition suffix, matches ``pattern`` wholly (its own scheme is
    ignored); None when matching might take long. Raises PatternError."""
    matches = compile_pattern(pattern.split("://", 1)[-1])
    if matches is None:
        return None
    return lambda topic: matches(_PARTITION.sub("", topic.split("://", 1)[-1]))


_PARTITION = re.compile(rf"{PARTITION_SUFFIX}\d+\Z")


def topics_hash(topics: list[str]) -> str:
    """CRC32C of the sorted names joined by commas, its bytes little-endian in hexadecimal; none at all: 00000000."""
    if not topics:
        return "00000000"
    return int(crc32c(",".join(sorted(topics)).encode())).to_bytes(4, "little").hex()


def _is_cheap(pattern: str) -> bool:
    repeats = 0
    in_class = False
    before = ""
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            if not in_class and pattern[at + 1 : at + 2].isdigit():
                return False  # a back-reference
            before = "\\"
            at += 2
            continue
        if in_class:
            # A bracket right behind the opening (or its negation) is a literal.
            if char == "]" and before not in ("[", "[^"):
                in_class = False
            before = "[^" if before == "[" and char == "^" else char if char != "[" else "x"
        elif char == "[":
            in_class, before = True, "["
        else:
            if char == "(" and pattern[at + 1 : at + 2] == "?" and pattern[at + 1 : at + 3] != "?:":
                return False
            if char in "*+{":
                if before == ")" or char == "{":
                    return False
                repeats += 1
            before = char
        at += 1
    return repeats <= REPEATS_MAX
