"""Every short order of the commands of a handshake."""

from itertools import product

import pytest

from tests.fuzz.identity.handshakes import STEPS, play

LENGTH = 3


@pytest.mark.parametrize("first", STEPS)
async def test_only_accepted_credentials_connect_in_any_order_of_commands(first: str) -> None:
    for rest in product(STEPS, repeat=LENGTH - 1):
        names = (first, *rest)
        served = await play(b"".join(STEPS[name] for name in names))
        if not first.startswith("CONNECT") or first in ("CONNECT bad", "CONNECT of no method"):
            assert served.closing, names
            assert not served.judge.accepted, names
        if any(name.startswith("CONNECT") for name in rest):
            assert served.closing, names  # CONNECT is sent once
        if first == "CONNECT half" and rest[0] in ("PING", "LOOKUP"):
            assert served.closing, names  # a challenge is answered first
            assert served.done == [], names
        if first == "CONNECT good" and not served.closing:
            assert served.handshake.client.identity.role == "good"


async def test_a_handshake_by_a_challenge_is_completed() -> None:
    """Show that orders exist which pass."""
    for names in (
        ("CONNECT good", "PING", "LOOKUP"),
        ("CONNECT half", "AUTH_RESPONSE good", "LOOKUP"),
        ("CONNECT half", "AUTH_RESPONSE half", "AUTH_RESPONSE other", "PING"),
        ("CONNECT later", "AUTH_RESPONSE other", "PING"),
    ):
        served = await play(b"".join(STEPS[name] for name in names), cut=20)
        assert not served.closing
        assert served.done == [name for name in names if name in ("PING", "LOOKUP")]
