"""Long work in steps, between which other tasks run."""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from gateway.services.index.topic_index import STEP

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


def pieces(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Split an answer to ``TOPIC_ROWS`` into answers of at most ``STEP`` rows each."""
    rows, gone = answer["rows"], answer["gone"]
    whole = answer["whole"]
    while len(rows) + len(gone) > STEP:
        rows_now, rows = rows[:STEP], rows[STEP:]
        room = STEP - len(rows_now)
        gone_now, gone = gone[:room], gone[room:]
        yield {**answer, "whole": whole, "rows": rows_now, "gone": gone_now, "more": True}
        whole = False
    yield {**answer, "whole": whole, "rows": rows, "gone": gone}
