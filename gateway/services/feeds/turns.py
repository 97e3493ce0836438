"""Long work in steps, between which other tasks run."""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from gateway.services.feeds.row_list import STEP

T = TypeVar("T")


async def in_turns(steps: Iterator[None]) -> None:
    """Run all steps; other tasks run between them."""
    for _ in steps:
        await asyncio.sleep(0)


def batches(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in lists of at most ``STEP``."""
    remaining = iter(items)
    while batch := list(islice(remaining, STEP)):
        yield batch
