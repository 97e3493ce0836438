"""Code at http:// and https:// URLs: fetched once, from addresses that were judged, into a file without a name.

What is fetched is stored as a package, so instances never fetch from the web, and their code does not change.
"""

import re
import socket
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from mmap import ACCESS_READ, mmap
from tempfile import TemporaryFile
from time import monotonic
from typing import Any
from urllib.parse import unquote, urlsplit

from requests import Response
from requests.exceptions import RequestException

from engine.base.errors import InvalidRequest
from gateway.services.outside.pinned_http import Destination, is_public, session_to

NOT_VALID = "Function Package url is not valid.supported url (http/https/file)"
"""Apache's text."""
URL_CHARS_MAX = 2_000
CONNECT_S, READ_S = 5.0, 10.0
FETCH_S = 120.0
"""Time in which a package must be fetched."""
PIECE_BYTES = 1 << 16

Resolve = Callable[..., Sequence[tuple[Any, ...]]]


def check_url(url: str, patterns: Iterable[re.Pattern[str]]) -> Destination:
    """Return the parts of a URL that a pattern permits. Raises InvalidRequest."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidRequest(NOT_VALID) from None
    host = (parts.hostname or "").lower()
    if parts.scheme not in ("https", "http") or not host or len(url) > URL_CHARS_MAX:
        raise InvalidRequest(NOT_VALID)
    if not url.isascii() or not url.isprintable() or " " in url or "@" in parts.netloc:
        raise InvalidRequest(NOT_VALID)
    if not any(pattern.fullmatch(url) for pattern in patterns):
        raise InvalidRequest(NOT_VALID)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Destination(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), target)


def resolve(destination: Destination, lookup: Resolve = socket.getaddrinfo) -> str:
    """Return the public address to connect to. Raises InvalidRequest where one of the host's is not public."""
    host = destination.host
    try:
        resolved = lookup(host, destination.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise InvalidRequest(f"The name {host} cannot be resolved") from None
    addresses = [ip_address(str(info[4][0]).partition("%")[0]) for info in resolved]
    if not addresses or not all(map(is_public, addresses)):
        raise InvalidRequest(
            f"{host} has an address that is not public; packages are not fetched there"
        )
    return str(addresses[0])


def file_name_of(url: str) -> str:
    """Return the name of the file that a URL ends with; empty without one."""
    return unquote(urlsplit(url).path).rpartition("/")[2]


def fetch(
    url: str,
    patterns: Iterable[re.Pattern[str]],
    bytes_max: int,
    resolved: Callable[[Destination], str] = resolve,
) -> bytes | mmap:
    """Return the content of a URL. Blocks. Raises InvalidRequest; a redirect is not followed."""
    destination = check_url(url, patterns)
    address, host = resolved(destination), destination.host
    try:
        with (
            session_to(host, FETCH_S) as session,
            session.get(
                destination.url_at(address),
                headers={
                    "Host": destination.authority,
                    "User-Agent": "magnetar",
                    "Accept-Encoding": "identity",
                },
                timeout=(CONNECT_S, READ_S),
                allow_redirects=False,
                stream=True,
            ) as answer,
        ):
            return _content(answer, host, bytes_max)
    except (RequestException, OSError, ValueError) as error:
        raise InvalidRequest(f"{host} gave no package ({type(error).__name__})") from error


def _content(answer: Response, host: str, bytes_max: int) -> bytes | mmap:
    if answer.status_code != 200:
        raise InvalidRequest(f"{host} gave no package: it answers HTTP {answer.status_code}")
    ends, size = monotonic() + FETCH_S, 0
    with TemporaryFile() as file:
        for piece in answer.iter_content(PIECE_BYTES):
            size += len(piece)
            if size > bytes_max:
                raise InvalidRequest(
                    f"{host} gave no package: it has more than {bytes_max} bytes (package_bytes_max)"
                )
            if monotonic() > ends:
                raise InvalidRequest(f"{host} gave no package within {FETCH_S:g} s")
            file.write(piece)
        file.flush()
        return mmap(file.fileno(), 0, access=ACCESS_READ) if size else b""
