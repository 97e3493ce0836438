"""A database that is away from some query on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError
from django.db.backends.utils import CursorWrapper


class Away:
    """A database that is away from its ``from_query``-th query on."""

    def __init__(self, from_query: int) -> None:
        self.left = from_query
        self.failed = False

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.failed = True
            raise OperationalError("the server closed the connection unexpectedly")


@contextmanager
def away(from_query: int) -> Iterator[Away]:
    state = Away(from_query)
    patch = pytest.MonkeyPatch()
    for name in ("execute", "executemany"):
        real = getattr(CursorWrapper, name)

        def checked(cursor: Any, *args: Any, real: Any = real, **named: Any) -> Any:
            state.check()
            return real(cursor, *args, **named)

        patch.setattr(CursorWrapper, name, checked)
    try:
        yield state
    finally:
        patch.undo()
