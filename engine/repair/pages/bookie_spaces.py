"""The room on the disks of all bookies, as BookKeeper's page ``list_bookie_info`` and its shell print it."""

import asyncio
from functools import partial

from engine.ledger.client import LedgerClient
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.repair.ledger_listing import children
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb

UNITS = ("", "KB", "MB", "GB", "TB")
Space = tuple[int, int]
"""Free and total bytes."""


async def spaces(store: MetadataStore, client: LedgerClient) -> dict[str, Space | None]:
    """Return the room of all registered bookies; None for one that does not answer. Raises the store's errors."""
    writable = await children(store, paths.AVAILABLE)
    read_only = await children(store, paths.READ_ONLY)
    bookies = sorted({*writable, *read_only} - {"readonly"})
    client.bookies.start()
    result: dict[str, Space | None] = dict.fromkeys(bookies)
    waiting, done = dict.fromkeys(bookies), asyncio.Event()

    def reply(bookie: str, response: pb.Response | None) -> None:
        if response is not None and response.status == pb.EOK:
            info = response.getBookieInfoResponse
            result[bookie] = info.freeDiskSpace, info.totalDiskCapacity
        waiting.pop(bookie, None)
        if not waiting:
            done.set()

    asked = []
    for bookie in bookies:
        channel = client.bookies.links.v3(bookie)
        asked.append((channel, channel.request(v3.info_request, partial(reply, bookie))))
    try:
        if waiting:
            async with asyncio.timeout(client.settings.read_entry_timeout_s):
                await done.wait()
    except TimeoutError:
        pass  # those that are left are not known
    finally:
        for channel, number in asked:
            channel.forget(number)
    return result


def readable(size: int) -> str:
    """Return a size as BookKeeper prints it behind the bytes: decimal units, three digits cut off; empty below 1 KB."""
    power = 0
    while size >= 1000 ** (power + 1) and power < len(UNITS) - 1:
        power += 1
    if not power:
        return ""
    whole, thousandths = divmod(size * 1000 // 1000**power, 1000)
    digits = f"{whole}.{thousandths:03d}".rstrip("0").rstrip(".")
    return f"({digits}{UNITS[power]})"


def free_and_total(space: Space) -> str:
    """Return the room of a bookie, or of all, as BookKeeper prints it."""
    free, total = space
    return f"{{Free: {free}{readable(free)}, Total: {total}{readable(total)}}}"
