"""Retries of reads for as long as a bookie needs to restart."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from engine.ledger.errors import ReadError
from engine.metadata.store import StoreUnavailableError
from engine.schema.stored_versions import LostVersionError, UnreadableError

log = logging.getLogger(__name__)
WAITS_S = (0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0)
"""Seconds between the attempts of a read without an answer."""
BRIEF_WAITS_S = (0.25, 0.5)
"""The same where brokers can be read through instead."""
_Answer = TypeVar("_Answer")


async def patiently(
    read: Callable[[], Awaitable[_Answer]], waits_s: Sequence[float] | None = None
) -> _Answer:
    """Return the answer of ``read``, repeated while no replica or metadata store answers.

    Raises the errors of ``read``: ReadError, StoreUnavailableError and UnreadableError only after the last of
    ``waits_s`` (None: WAITS_S), LostVersionError at once.
    """
    for wait_s in WAITS_S if waits_s is None else waits_s:
        try:
            return await read()
        except LostVersionError:
            raise
        except (ReadError, StoreUnavailableError, UnreadableError) as error:
            log.info("read is repeated in %s s: %s", wait_s, error)
        await asyncio.sleep(wait_s)
    return await read()
