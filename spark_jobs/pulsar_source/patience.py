"""Reads asked again for as long as the restart of a bookie takes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from engine.ledger.errors import ReadError
from engine.metadata.store import StoreUnavailableError
from engine.schema.stored_versions import LostVersionError, UnreadableError

log = logging.getLogger(__name__)
WAITS_S = (0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0)
"""Between the attempts of a read that nobody answered."""
_Answer = TypeVar("_Answer")


async def patiently(read: Callable[[], Awaitable[_Answer]]) -> _Answer:
    """The answer of ``read``, asked again while no replica or no metadata store gives it: what was restarted is back
    in seconds.

    Raises what ``read`` raises, ReadError, StoreUnavailableError and UnreadableError only after the last of WAITS_S,
    LostVersionError at once.
    """
    for wait_s in WAITS_S:
        try:
            return await read()
        except LostVersionError:
            raise
        except (ReadError, StoreUnavailableError, UnreadableError) as error:
            log.info("read again in %s s: %s", wait_s, error)
        await asyncio.sleep(wait_s)
    return await read()
