"""Accounts of the changes that a request makes, for the audit log.

The audit log opens an account around the request. Code that changes something adds the change to the open account.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

CHANGES_MAX = 64
"""Maximum number of changes that one account records; a topic of a thousand partitions has a thousand nodes."""


class Change(NamedTuple):
    """One change, with the state before and after.

    For a metadata node, ``where`` is its path and the states are its stored values (bytes, None without a node). For a
    broker's operation, ``where`` is the operation's name, ``before`` the state that the broker reports, ``after`` the
    request.
    """

    where: str
    before: Any
    after: Any


class Account:
    """Recorded ``changes`` in their order, and the number of changes beyond CHANGES_MAX (``more``)."""

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
    """Return the open account, which tasks inherit; None without one."""
    return _open.get()


def leave() -> None:
    """Detach the current task from its account, because it works for all callers."""
    _open.set(None)


@contextmanager
def opened() -> Iterator[Account]:
    """Open an account for the changes made within the block."""
    account = Account()
    token = _open.set(account)
    try:
        yield account
    finally:
        _open.reset(token)
