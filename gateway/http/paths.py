"""Routing on the request target as it was sent.

ASGI servers pass a decoded path, in which ``a%2Fb`` and ``a/b`` are the same. Pulsar's names may hold any character,
so the REST trees are routed on the raw target: it is split on ``/`` first, then each segment is decoded by itself.
Segments are form-encoded (``+`` is a blank). A subscription's name is decoded twice, because the Go client encodes it
twice.

Django tries all patterns of a group one after another. An index by segments yields those that may match, in their
order, and Django's own resolver decides among them: the match, its names and its converters are Django's. A path that
none of them matches is resolved by Django as a whole.
"""

import copy
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote, unquote_plus

from django.http import HttpRequest
from django.urls import (
    Resolver404,
    ResolverMatch,
    URLPattern,
    URLResolver,
    get_resolver,
    register_converter,
)
from django.urls.resolvers import RoutePattern

RAW_PREFIXES = ("/admin/", "/lookup/", "/api/", "/topics/", "/metrics", "/clusters/")

Pattern = URLPattern | URLResolver
_VARIABLE = re.compile(r"<(?:[^>:]+:)?([^>]+)>")
_SEGMENTS = {
    "[^/]+": 1,
    "[0-9]+": 1,
    "-?[0-9]{1,19}": 1,
    "[-a-zA-Z0-9_]+": 1,
    "[^/]+/[^/]+": 2,
}
"""Number of segments that the converters' expressions match; patterns with others are tried for every path."""


def use_raw_path(request: HttpRequest) -> None:
    """Route ``request`` on its target as sent below ``RAW_PREFIXES``, and keep that as ``original_target``."""
    scope = getattr(request, "scope", None) or {}
    raw: bytes | None = scope.get("raw_path")
    target = raw.decode("latin-1").split("?", 1)[0] if raw is not None else request.path_info
    if not target.startswith(RAW_PREFIXES):
        return
    request.original_target = target  # type: ignore[attr-defined]
    # One trailing slash is tolerated, as Pulsar does; an empty segment inside the path is not.
    request.path_info = target[:-1] if target.endswith("/") and len(target) > 1 else target


def decode_segment(text: str) -> str:
    """Return a path segment, decoded once.

    Raises ValueError for bytes that are not UTF-8, and for ``.`` and ``..`` in any encoding, since a name must not
    refer to another path.
    """
    name = unquote_plus(text, errors="strict")
    if name in (".", "..") or "\x00" in name:
        raise ValueError("a path segment may be neither '.' nor '..' nor hold a zero byte")
    return name


class SegmentConverter:
    """``<seg:name>``: one segment, decoded once."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        return decode_segment(value)

    def to_url(self, value: str) -> str:
        return quote(value, safe="")


class TwiceEncodedConverter(SegmentConverter):
    """``<twice:name>``: a subscription name, decoded twice."""

    def to_python(self, value: str) -> str:
        return decode_segment(decode_segment(value))


class TwoSegmentsConverter(SegmentConverter):
    """``<two:name>``: two segments, each decoded by itself, with a slash between them."""

    regex = "[^/]+/[^/]+"

    def to_python(self, value: str) -> str:
        return "/".join(map(decode_segment, value.split("/")))

    def to_url(self, value: str) -> str:
        return quote(value, safe="/")


class NumberConverter:
    """``<number:name>``: a decimal integer; anything else is an unknown route, as in Pulsar."""

    regex = "-?[0-9]{1,19}"

    def to_python(self, value: str) -> int:
        number = int(value)
        if not -(1 << 63) <= number < 1 << 63:
            raise ValueError("not a 64-bit integer")
        return number

    def to_url(self, value: int) -> str:
        return str(value)


register_converter(SegmentConverter, "seg")
register_converter(TwiceEncodedConverter, "twice")
register_converter(TwoSegmentsConverter, "two")
register_converter(NumberConverter, "number")


def resolve_request(request: HttpRequest) -> ResolverMatch:
    """Return the match of the request's path, which is resolved once. Raises Resolver404."""
    if request.resolver_match is None:
        request.resolver_match = _index(get_resolver()).resolve(request.path_info)
    return request.resolver_match


class _Node:
    """Segments that may follow a prefix, and the numbers of the patterns that end there."""

    __slots__ = ("ends", "literals", "variable")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.variable: _Node | None = None
        self.ends: list[int] = []


class RouteIndex:
    """The patterns of one resolver."""

    def __init__(self, resolver: URLResolver) -> None:
        self._resolver = resolver
        self._root = _Node()
        self._always: list[int] = []
        self._parts: dict[tuple[int, ...], URLResolver] = {}
        for number, chain in enumerate(_chains(resolver)):
            self._add(number, _segments(chain))

    def _add(self, number: int, segments: Sequence[str | None] | None) -> None:
        if segments is None:
            self._always.append(number)
            return
        node = self._root
        for segment in segments:
            if segment is None:
                node.variable = node = node.variable or _Node()
            else:
                node = node.literals.setdefault(segment, _Node())
        node.ends.append(number)

    def candidates(self, path: str) -> tuple[int, ...]:
        """Return the numbers of the patterns that may match, in their order."""
        nodes = [self._root]
        for segment in path.removeprefix("/").split("/"):
            following = []
            for node in nodes:
                literal = node.literals.get(segment)
                if literal is not None:
                    following.append(literal)
                if node.variable is not None:
                    following.append(node.variable)
            nodes = following
        return tuple(sorted([*self._always, *(end for node in nodes for end in node.ends)]))

    def resolve(self, path: str) -> ResolverMatch:
        """Return Django's match of a path. Raises Resolver404."""
        numbers = self.candidates(path)
        part = self._parts.get(numbers)
        if part is None:
            part = self._parts[numbers] = _only(self._resolver, frozenset(numbers))
        try:
            return part.resolve(path)
        except Resolver404:
            return self._resolver.resolve(path)


@cache
def _index(resolver: URLResolver) -> RouteIndex:
    return RouteIndex(resolver)


def _chains(resolver: URLResolver) -> Iterator[list[Pattern]]:
    """Yield the patterns below a resolver in the order in which they are tried, each with the resolvers above it."""
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            for chain in _chains(pattern):
                yield [pattern, *chain]
        else:
            yield [pattern]


def _segments(chain: Sequence[Pattern]) -> list[str | None] | None:
    """Return the segments of the paths that a pattern matches, None for a variable one; None when they vary."""
    route, widths = "", dict[str, int]()
    for member in chain:
        pattern = member.pattern
        if not isinstance(pattern, RoutePattern):
            return None
        route += str(pattern)
        for name, converter in pattern.converters.items():
            if converter.regex not in _SEGMENTS:
                return None
            widths[name] = _SEGMENTS[converter.regex]
    segments: list[str | None] = []
    for segment in route.split("/"):
        names = _VARIABLE.findall(segment)
        if not names:
            segments.append(segment)
        elif len(names) == 1 or all(widths[name] == 1 for name in names):
            segments += [None] * widths[names[0]]
        else:
            return None
    return segments


def _only(resolver: URLResolver, numbers: frozenset[int]) -> URLResolver:
    """Return a copy of the resolver with the patterns of these numbers alone."""
    counted = iter(range(1 << 30))

    def part_of(whole: URLResolver) -> URLResolver:
        kept: list[Any] = []
        for pattern in whole.url_patterns:
            if not isinstance(pattern, URLResolver):
                if next(counted) in numbers:
                    kept.append(pattern)
            elif (below := part_of(pattern)).url_patterns:
                kept.append(below)
        part = copy.copy(whole)
        part.__dict__["url_patterns"] = kept
        return part

    return part_of(resolver)
