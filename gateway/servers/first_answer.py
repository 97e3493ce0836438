"""A gateway's first answer, after which it reports to the service manager that it is ready."""

import asyncio
import logging
from typing import Any

from engine.base.addresses import is_wildcard
from engine.net.service_manager import notices

log = logging.getLogger(__name__)

REQUEST = b"GET /status.html HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
"""A page that needs no credentials and no other program: the answer is 200 or 404."""
ANSWERS = (b"200", b"404")


async def report_ready(address: tuple[Any, ...]) -> None:
    """Ask this gateway for a page at the ``address`` of a listener, and report that it is ready when it answers as it
    should.

    The listener already accepts, so that the request waits for the server and needs no repetition. Where no service
    manager waits nothing is asked.
    """
    if not notices.expects_notices():
        return
    host, port = address[:2]
    if is_wildcard(host):
        host = "::1" if ":" in host else "127.0.0.1"
    try:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(REQUEST)
            line = await reader.readline()
        finally:
            writer.close()
    except OSError as error:
        log.error("not ready: the gateway does not reach itself: %s", error)
        return
    if line.split()[1:2] and line.split()[1] in ANSWERS:
        notices.ready()
    else:
        log.error("not ready: the gateway answers itself with %r", line)
