"""Routing on the request target as it was sent.

ASGI servers pass a decoded path, in which ``a%2Fb`` and ``a/b`` are the same. Pulsar's names may hold any character,
so the REST trees are routed on the raw target: it is split on ``/`` first, then each segment is decoded by itself.
Segments are form-encoded (``+`` is a blank). A subscription's name is decoded twice, because the Go client encodes it
twice.
"""

from urllib.parse import quote, unquote_plus

from django.http import HttpRequest
from django.urls import register_converter

RAW_PREFIXES = ("/admin/", "/lookup/", "/api/", "/topics/", "/metrics", "/clusters/")


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
