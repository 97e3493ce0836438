"""Records of revoked tokens, and the copy of their ids that each process has."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from engine.auth.authenticators import jws
from engine.auth.authenticators.signing_keys import EcPrivateKey, SecretKey
from engine.base.clock import LoopClock
from engine.base.errors import Conflict, InvalidField
from engine.metadata import paths
from engine.metadata.memory import MemoryServer, MemoryStore
from engine.metadata.store import SessionState
from engine.tenancy.access import revoked_tokens
from engine.tenancy.access.revoked_tokens import (
    SWEPT_AFTER_S,
    RevokedTokens,
    remove_ended,
    revoke_token,
)

pytestmark = pytest.mark.virtual_time


class Bench:
    """A process's copy over a session of its own, and the session of an administrator."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.server = MemoryServer()
        self.writer: MemoryStore = self.server.session()
        self.session: MemoryStore = self.server.session()
        self.changes = 0
        self.tokens = RevokedTokens(self.session, self.clock, self._changed, sweeps=True)

    def _changed(self) -> None:
        self.changes += 1

    @property
    def now_s(self) -> float:
        return self.clock.wall_ms() / 1000

    async def revoke(self, token_id: str, expires_at: float | None = None) -> None:
        await revoke_token(self.writer, token_id, expires_at=expires_at, clock=self.clock)

    async def ids(self) -> list[str]:
        return [record.token_id for record in await revoked_tokens.revoked_tokens(self.writer)]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.tokens.load()
    bench.tokens.start()
    yield bench
    await bench.tokens.close()


async def test_a_confirmed_revocation_is_noticed_within_a_second(bench: Bench) -> None:
    await bench.revoke("first")
    confirmed = asyncio.get_running_loop().time()
    while "first" not in bench.tokens:
        await asyncio.sleep(0.01)
    assert asyncio.get_running_loop().time() - confirmed <= 1.0
    assert bench.changes == 1
    assert "second" not in bench.tokens


async def test_a_process_that_starts_knows_what_was_revoked_before(bench: Bench) -> None:
    await bench.revoke("first")
    late = RevokedTokens(bench.server.session(), bench.clock, lambda: None)
    await late.load()
    assert "first" in late


async def test_known_revocations_stay_while_the_store_is_unavailable_and_others_follow(
    bench: Bench,
) -> None:
    await bench.revoke("first")
    while "first" not in bench.tokens:
        await asyncio.sleep(0.01)
    bench.server.partition(bench.session.session_id)
    while bench.session.state is SessionState.CONNECTED:
        await asyncio.sleep(0.1)
    await bench.revoke("second")
    assert "first" in bench.tokens
    bench.server.heal(bench.session.session_id)
    while "second" not in bench.tokens:
        await asyncio.sleep(0.1)
    assert "first" in bench.tokens


async def test_a_record_is_removed_after_its_token_has_ended_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(revoked_tokens, "SWEEP_S", 3.0)
    monkeypatch.setattr(revoked_tokens, "SWEPT_AFTER_S", 2)
    bench = Bench()
    bench.tokens.start()
    ends = bench.now_s + 10
    await bench.revoke("brief", ends)
    await bench.revoke("endless")
    await asyncio.sleep(9)
    assert await bench.ids() == ["brief", "endless"]
    while await bench.ids() != ["endless"]:
        await asyncio.sleep(0.1)
    assert 2 <= bench.now_s - ends <= 2 + 3 + 1
    while "brief" in bench.tokens:
        await asyncio.sleep(0.1)
    await bench.tokens.close()


async def test_a_token_that_is_revoked_twice_stays_so_for_the_longer_time(bench: Bench) -> None:
    await bench.revoke("first", 5.0)
    await bench.revoke("first", 9.0)
    await bench.revoke("first", 7.0)
    records = await revoked_tokens.revoked_tokens(bench.writer)
    assert [(record.token_id, record.expires_at) for record in records] == [("first", 9.0)]
    await bench.revoke("first")
    assert (await revoked_tokens.revoked_tokens(bench.writer))[0].expires_at is None


async def test_too_many_records_are_refused_after_the_ended_ones_are_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revoked_tokens, "REVOKED_MAX", 2)
    await bench.revoke("ended", bench.now_s - SWEPT_AFTER_S)
    await bench.revoke("second")
    await bench.revoke("third")
    assert await bench.ids() == ["second", "third"]
    with pytest.raises(Conflict, match="2 tokens are revoked"):
        await bench.revoke("fourth")
    await bench.revoke("third")


@pytest.mark.parametrize("token_id", ["", "a/b", ".", "..", "é", "a" * 72])
async def test_an_id_is_the_name_of_a_node(token_id: str, bench: Bench) -> None:
    with pytest.raises(InvalidField, match="token_id"):
        await bench.revoke(token_id)


async def test_a_damaged_record_stays_and_counts(bench: Bench) -> None:
    await bench.writer.create(paths.revoked_token("first"), b"[", make_parents=True)
    assert await remove_ended(bench.writer, 1e12) == 0
    while "first" not in bench.tokens:
        await asyncio.sleep(0.01)


def made(**claims: object) -> str:
    return jws.sign(claims, SecretKey(bytes(32)), "HS256")


def test_the_id_of_a_token_is_its_own_or_the_digest_of_what_is_signed() -> None:
    assert jws.token_id(jws.parse(made(sub="app", jti="7f-1"))) == "7f-1"
    for unusable in (None, 7, "", "a/b", "a" * 72):
        digest = jws.token_id(jws.parse(made(sub="app", jti=unusable)))
        assert digest.startswith("sha256:")
        assert jws.TOKEN_ID.fullmatch(digest)
    assert jws.token_id(jws.parse(made(sub="app"))) != jws.token_id(jws.parse(made(sub="other")))


def test_another_form_of_the_same_signature_has_the_same_id() -> None:
    token = made(sub="app")
    # The last digit of a signature of 32 bytes has two bits that do not count.
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = token[:-1] + letters[letters.index(token[-1]) ^ 1]
    jws.verify(jws.parse(other), SecretKey(bytes(32)))
    assert jws.token_id(jws.parse(other)) == jws.token_id(jws.parse(token))


def test_two_signatures_of_the_same_claims_have_one_id() -> None:
    key = EcPrivateKey(ec.generate_private_key(ec.SECP256R1()))
    first, second = (jws.sign({"sub": "app"}, key, "ES256") for _ in range(2))
    assert first != second
    assert jws.token_id(jws.parse(first)) == jws.token_id(jws.parse(second))
