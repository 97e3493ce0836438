"""Reasons of calls that the console's database could not serve, for their callers."""

import sqlite3

AWAY = "The console's database does not answer; try again"
FULL = "The console's database has no space left, and nothing can be changed until it has"
READ_ONLY = "The console's database only reads, and nothing can be changed until it accepts writes"
SLOW = "The console's database did not finish the call in time; try again, or ask for less"
CROWDED = "The console's database accepts no more connections; try again"

_BY_STATE = {
    "25006": READ_ONLY,
    "53100": FULL,
    "53300": CROWDED,
    "55P03": SLOW,  # a lock
    "57014": SLOW,
}
"""Reasons of PostgreSQL's SQLSTATE."""
_BY_CODE = {sqlite3.SQLITE_FULL: FULL, sqlite3.SQLITE_READONLY: READ_ONLY}
"""Reasons of SQLite's primary result codes."""


def reason_of(error: BaseException) -> str:
    """Return the reason of a DatabaseError of Django, whose cause is the driver's error."""
    cause = error.__cause__ or error
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return _BY_CODE.get(code & 0xFF, AWAY)
    return _BY_STATE.get(getattr(cause, "sqlstate", None) or "", AWAY)
