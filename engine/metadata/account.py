"""What the work that a caller asks for changes, for whoever keeps account of it (the audit log).

Whoever wants to know opens an account around the work; what changes something adds to it, wherever in the work it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

CHANGES_MAX = 64
"""How many are kept of one account: a topic of a thousand partitions is a thousand nodes."""


class Change(NamedTuple):
    """One thing before and after: a metadata node's value as stored (bytes; None: there was or is none), or what a
    broker was told, by the operation's name, and what it says was there."""

    where: str
    before: Any
    after: Any


class Account:
    """``changes`` in their order, and how many ``more`` there were."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.more = 0

    def add(self, where: str, before: Any, after: Any) -> None:
        if len(self.changes) < CHANGES_MAX:
            self.changes.append(Change(where, before, after))
        else:
            self.more += 1


_open: ContextVar[Account | None] = ContextVar("account", default=None)


def current() -> Account | None:
    """The account that is open where this is called, in tasks started within it as well."""
    return _open.get()


def leave() -> None:
    """Have what the present task changes from here on counted in no account: it works for all callers."""
    _open.set(None)


@contextmanager
def opened() -> Iterator[Account]:
    """An account of all that is changed within."""
    account = Account()
    token = _open.set(account)
    try:
        yield account
    finally:
        _open.reset(token)
