"""Publishing in two ways beside each other, in slices by turns: what one costs more than the other."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import NamedTuple

from tests.bench import raw
from tests.bench.contenders import Contender
from tests.bench.figures import Figures
from tests.bench.loads import WINDOW, counts_of, new_topic
from tests.support.transactions.transaction_client import Txn

SLICES = 20
SETTLES_S = 0.2
"""Pause after the receipts: work in the background counts for the slice."""
DEDUPLICATED = "public/deduplicated"


class Side(NamedTuple):
    """A connection with producer 1, what it sends, and the transaction in which it does."""

    link: raw.Link
    payload: bytes
    txn: Txn | None = None


async def by_turns(contender: Contender, sides: Sequence[Side], count: int) -> list[float]:
    """Return the CPU µs per entry of each side; closes their connections."""
    slice_count = count // SLICES
    used = [0.0] * len(sides)
    for turn in range(-1, SLICES):  # the first warms all up
        for number in range(len(sides))[:: 1 if turn % 2 else -1]:
            link, payload, txn = sides[number]
            frames = raw.blocks(payload, slice_count, first=(turn + 1) * slice_count, txn=txn)
            counts = counts_of(frames, payload, slice_count)
            cpu = contender.cpu_s()
            await raw.publish(link, frames, counts, WINDOW)
            await asyncio.sleep(SETTLES_S)
            if turn >= 0:
                used[number] += contender.cpu_s() - cpu
    for side in sides:
        side.link.close()
    return [cpu / (slice_count * SLICES) * 1e6 for cpu in used]


def deduplicated(contender: Contender, size: int, count: int) -> Figures:
    """Publish ``count`` entries to a topic of a namespace with deduplication, and as many to one without."""

    async def work() -> Figures:
        _ask(contender, "PUT", f"/admin/v2/namespaces/{DEDUPLICATED}", allowed=409)
        _ask(contender, "POST", f"/admin/v2/namespaces/{DEDUPLICATED}/deduplication", b"true")
        plain = new_topic("plain")
        sides = []
        for topic in (plain, plain.replace("public/default", DEDUPLICATED)):
            link = await raw.connect(contender.url, topic)
            await raw.open_producer(link, topic)
            sides.append(Side(link, raw.payload_of(size)))
        without, used = await by_turns(contender, sides, count)
        return {"CPU µs/entry": used, "without": without, "with to without": used / without}

    return asyncio.run(work())


def _ask(
    contender: Contender, method: str, path: str, body: bytes | None = None, allowed: int = 0
) -> None:
    """Call REST; the status ``allowed`` is accepted besides success. Raises OSError."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(contender.http + path, body, headers, method=method)
    try:
        urllib.request.urlopen(request, timeout=30).close()
    except urllib.error.HTTPError as error:
        if error.code != allowed:
            raise
