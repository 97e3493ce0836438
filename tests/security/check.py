"""A row of the list of attacks."""

from typing import NamedTuple


class Check(NamedTuple):
    """An attempt of an attacker, what must become of it, and the tests that make it.

    ``tests`` are ``path::name`` below ``tests/``. ``absent`` says in one sentence which feature the attempt needs that
    does not exist; the tests of such a check show that its door is closed, where there is a door.
    """

    number: int
    attempt: str
    expected: str
    tests: tuple[str, ...] = ()
    absent: str = ""
