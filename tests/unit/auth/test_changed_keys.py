"""Keys of tokens in files are read again when the files change, and withdraw the tokens of former keys."""

import asyncio
import logging
import os
from collections.abc import Awaitable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from engine.auth.authentication import Authentication, follow_keys
from engine.auth.authenticators import jws
from engine.auth.authenticators.signing_keys import RsaPrivateKey, SecretKey, SigningKey
from engine.auth.create import create_authentication
from engine.auth.credentials import AuthenticationFailed, Credentials
from engine.auth.identity import Identity
from engine.auth.settings import (
    AuthenticationSettings,
    IdentitySettings,
    SecondTokenSettings,
    TokenSettings,
)
from engine.base.clock import LoopClock

pytestmark = pytest.mark.virtual_time

FIRST, SECOND, THIRD = bytes(32), bytes(range(32)), b"3" * 32


def replace(path: Path, data: bytes) -> None:
    """Replace a file as an operator does, by a rename."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.chmod(0o600)
    os.replace(new, path)


class Keys:
    """The files of two providers, and the authentication by them."""

    def __init__(self, folder: Path, *, public: bool = False) -> None:
        self.current, self.former = folder / "current.key", folder / "former.key"
        replace(self.current, public_of(RSA) if public else FIRST)
        replace(self.former, SECOND)
        url = self.current.as_uri()
        self.authentication: Authentication = create_authentication(
            IdentitySettings(
                AuthenticationSettings(
                    authentication_enabled=True, authentication_providers="token,second_token"
                ),
                TokenSettings(token_public_key=url)
                if public
                else TokenSettings(token_secret_key=url),
                SecondTokenSettings(second_token_secret_key=self.former.as_uri()),
            ),
            LoopClock(),
            fetched,
            judge_proxies=False,
        )

    async def identify(self, key: bytes | SigningKey) -> Identity:
        signs = SecretKey(key) if isinstance(key, bytes) else key
        token = jws.sign({"sub": "app"}, signs, signs.algorithms[0])
        identity = self.authentication(Credentials("token", token.encode()))
        return identity if isinstance(identity, Identity) else await identity


def fetched(url: str) -> Awaitable[bytes]:
    raise AssertionError("no issuer")


RSA, OTHER_RSA = (rsa.generate_private_key(65537, 2048) for _ in range(2))


def public_of(key: rsa.RSAPrivateKey, encoding: Encoding = Encoding.DER) -> bytes:
    return key.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)


async def test_tokens_of_a_replaced_secret_are_refused_within_two_seconds(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    before = await keys.identify(FIRST)
    replace(keys.current, THIRD)
    await asyncio.sleep(1.0)
    with pytest.raises(AuthenticationFailed):
        await keys.identify(FIRST)
    after = await keys.identify(THIRD)
    assert keys.authentication.is_withdrawn(before)
    assert not keys.authentication.is_withdrawn(after)
    assert before == after


async def test_tokens_of_a_replaced_public_key_are_refused(tmp_path: Path) -> None:
    keys = Keys(tmp_path, public=True)
    before = await keys.identify(RsaPrivateKey(RSA))
    replace(keys.current, public_of(RSA, Encoding.PEM))
    await asyncio.sleep(1.0)
    await keys.identify(RsaPrivateKey(RSA))
    # The same key in another form withdraws nothing.
    assert not keys.authentication.is_withdrawn(before)
    replace(keys.current, public_of(OTHER_RSA))
    await asyncio.sleep(1.0)
    with pytest.raises(AuthenticationFailed):
        await keys.identify(RsaPrivateKey(RSA))
    assert keys.authentication.is_withdrawn(before)


async def test_a_key_that_moves_to_the_second_provider_withdraws_nothing(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    before = await keys.identify(FIRST)
    replace(keys.former, FIRST)
    await asyncio.sleep(1.0)
    replace(keys.current, THIRD)
    await asyncio.sleep(1.0)
    after = await keys.identify(FIRST)
    await keys.identify(THIRD)
    assert not keys.authentication.is_withdrawn(before)
    assert not keys.authentication.is_withdrawn(after)


@pytest.mark.parametrize("broken", [b"short", b"-----BEGIN PUBLIC KEY-----", None])
async def test_a_file_that_cannot_be_used_leaves_the_former_key(
    broken: bytes | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = Keys(tmp_path)
    before = await keys.identify(FIRST)
    [current, _] = keys.authentication.outcomes.files
    with caplog.at_level(logging.WARNING):
        keys.current.unlink() if broken is None else replace(keys.current, broken)
        await asyncio.sleep(1.0)
        await keys.identify(FIRST)
    assert "the changed token_secret_key is not used" in caplog.text
    assert current.is_unusable
    assert not keys.authentication.is_withdrawn(before)
    replace(keys.current, THIRD)
    await asyncio.sleep(1.0)
    await keys.identify(THIRD)
    assert not current.is_unusable


async def test_changes_are_noticed_without_a_client_that_connects(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    before = await keys.identify(FIRST)
    changed = asyncio.Event()
    task = asyncio.create_task(follow_keys(keys.authentication, changed.set))
    await asyncio.sleep(10)
    assert not changed.is_set()
    replace(keys.current, THIRD)
    replaced = asyncio.get_running_loop().time()
    await changed.wait()
    assert asyncio.get_running_loop().time() - replaced <= 5.0
    assert keys.authentication.is_withdrawn(before)
    task.cancel()
