"""Notices to the service manager that started this process (systemd, ``Type=notify``): one datagram each to the socket
that ``NOTIFY_SOCKET`` names. Without that variable nothing is sent."""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping

log = logging.getLogger(__name__)

READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"
SEND_S = 1.0
"""Seconds for which a notice may wait for room in the receiver's buffer."""


def expects_notices(environ: Mapping[str, str] | None = None) -> bool:
    """Return whether a service manager waits for notices of this process."""
    return bool((os.environ if environ is None else environ).get("NOTIFY_SOCKET"))


def notify(state: str) -> None:
    """Send a notice. A failure is logged and not raised: the service goes on without its manager."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # a name in Linux's abstract namespace
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(SEND_S)
            sender.sendto(state.encode(), address)
    except OSError as error:
        log.warning("cannot notify the service manager state=%s reason=%s", state, error)


def ready() -> None:
    """Report that the service does its work, and from now on regularly that the running event loop still turns, where
    the service manager asks for it (``WatchdogSec=``). Call it once, on the loop that serves."""
    notify(READY)
    if (interval_s := _watchdog_s(os.environ)) > 0:
        _keep_alive(asyncio.get_running_loop(), interval_s / 2)


def stopping() -> None:
    """Report that the service has begun to end."""
    notify(STOPPING)


def _watchdog_s(environ: Mapping[str, str]) -> float:
    """Return the seconds within which the service manager expects a sign of life; 0 when it expects none."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0  # meant for a process that started this one
    text = environ.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdigit() else 0.0


def _keep_alive(loop: asyncio.AbstractEventLoop, interval_s: float) -> None:
    # A timer of the loop that serves clients, not a thread: a loop that is stuck sends nothing and is restarted.
    notify(ALIVE)
    loop.call_later(interval_s, _keep_alive, loop, interval_s)
