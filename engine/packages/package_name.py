"""Names of packages: ``function://tenant/namespace/name@version``, also ``sink://`` and ``source://``. Pure."""

import re
from typing import NamedTuple

from engine.base.errors import InvalidNameError
from engine.base.names import NamespaceName

PACKAGE_KINDS = ("function", "sink", "source")
LATEST = "latest"
"""The version of a package that was stored last, where a name that is read has no other."""
PART_CHARACTERS_MAX = 255
_URL = re.compile(r"([a-z]+)://([^/]+/[^/]+)/([^/@]+)(?:@([^/@]+))?", re.DOTALL)


class PackageName(NamedTuple):
    """A version of a package. ``kind`` is one of PACKAGE_KINDS."""

    kind: str
    namespace: NamespaceName
    name: str
    version: str = LATEST

    def __str__(self) -> str:
        return f"{self.kind}://{self.namespace}/{self.name}@{self.version}"

    @classmethod
    def parse(cls, text: str) -> "PackageName":
        """Parse a package's URL. Raises InvalidNameError."""
        match = _URL.fullmatch(text)
        if match is None:
            raise InvalidNameError(f"Invalid package name '{text[:PART_CHARACTERS_MAX]}'")
        kind, namespace, name, version = match.groups(default=LATEST)
        return cls.of(kind, NamespaceName.parse(namespace), name, version)

    @classmethod
    def of(cls, kind: str, namespace: NamespaceName, name: str, version: str) -> "PackageName":
        """Return the name of valid parts. Raises InvalidNameError."""
        check_kind(kind)
        _check("name", name)
        _check("version", version)
        return cls(kind, namespace, name, version)


def check_kind(kind: str) -> str:
    """Return ``kind`` if packages may be of it. Raises InvalidNameError."""
    if kind not in PACKAGE_KINDS:
        raise InvalidNameError(f"Invalid package domain: '{kind[:PART_CHARACTERS_MAX]}'")
    return kind


def _check(part: str, text: str) -> None:
    if not text.strip() or text in (".", "..") or len(text) > PART_CHARACTERS_MAX:
        limit = f"1 to {PART_CHARACTERS_MAX} characters, not . and .."
        raise InvalidNameError(f"Invalid package {part}: must have {limit}")
    if not text.isprintable() or "/" in text or "@" in text:
        raise InvalidNameError(f"Invalid package {part}: must be printable, without / and @")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidNameError(f"Invalid package {part}: not valid UTF-8") from error
