"""The library of a client, by the version that it sends in CONNECT. Pure."""

import re
from typing import NamedTuple

LANGUAGES = {
    "Pulsar-Java": "Java",
    "Pulsar-CPP": "C++, Python or Node.js",
    "Pulsar-Go": "Go",
    "DotPulsar": "C#",
    "pulsar-rs": "Rust",
}
"""Languages of the libraries that name themselves. The C++ library is inside those of Python and Node.js, which send
its name."""
_SPELLED = {name.lower(): name for name in LANGUAGES}
_SENT = re.compile(
    r"(?P<library>[^\d\s].*?)"
    r"(?:[ -](?:version-)?v?(?P<version>unknown|\d[\w.+]*(?:-(?:SNAPSHOT|incubating|rc|candidate)\b)?)"
    r"(?:-(?P<description>.*))?)?",
    re.DOTALL,
)


class ClientLibrary(NamedTuple):
    """The library of a client; a field is empty where the client does not state it. ``description``: words about the
    application, which it gives to Java's or the C++ library."""

    library: str
    language: str = ""
    version: str = ""
    description: str = ""


def library_of(sent: str) -> ClientLibrary:
    """Return the library by the version sent; a text of no known form is its name, a bare number its version."""
    match = _SENT.fullmatch(sent.strip())
    if match is None:
        return ClientLibrary("", version=sent.strip())
    name = match["library"].replace(" ", "-")
    name = _SPELLED.get(name.lower(), name)
    version, description = match["version"] or "", match["description"] or ""
    language = "Magnetar" if name.startswith("Magnetar") else LANGUAGES.get(name, "")
    return ClientLibrary(name, language, version, description)


def version_key(version: str) -> tuple[tuple[int, str], ...]:
    """Return the key by which versions are ordered: numbers as numbers."""
    parts = re.findall(r"\d+|[A-Za-z]+", version)
    return tuple((int(part[:18]), "") if part.isdigit() else (-1, part.lower()) for part in parts)
