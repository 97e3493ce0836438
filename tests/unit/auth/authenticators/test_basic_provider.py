"""Names and passwords by an htpasswd file."""

import asyncio
import base64
import os
from pathlib import Path

import pytest

from engine.auth.authenticators import basic_provider, password_hashes
from engine.auth.authenticators.basic_provider import BasicProvider, read_users
from engine.auth.authenticators.password_hashes import check_form, verifies
from engine.auth.authenticators.provider import Presented, ProviderError
from engine.auth.authenticators.watched_file import CHECK_S
from engine.auth.credentials import AuthenticationFailed

HASHES = {
    "apr1": "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/",
    "crypt": "abNANd1rDfiNc",
    "sha256": "$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.",
    "sha512": "$6$abcdefgh$ltjgWl6579NluT/Vi1nwEvcil.G5Nbc4NiXZaNGStk8PSwGfQv72N2CKPPrVACtLtip/cZ/1GM/O6IND4WQhG.",
    "bcrypt": "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
}
"""Hashes of ``secret`` as openssl and htpasswd make them."""
APR1 = {
    "": "$apr1$abcdefgh$L.PT565ESX4Tp2bqNs7Ie.",
    "secret": "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/",
    "a-much-longer-password-than-one-digest": "$apr1$abcdefgh$XLI8f21UQFYYbmdrQraiK0",
}


@pytest.fixture(autouse=True)
def crypt_supports_all() -> None:
    if password_hashes._crypt(b"x", "$2y$04$abcdefghijklmnopqrstuu") is None:
        pytest.skip("this system's crypt(3) does not know bcrypt")


class Wall:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def provider(path: Path, wall: Wall | None = None) -> BasicProvider:
    return BasicProvider(str(path), wall or Wall())


async def role(checks: BasicProvider, data: bytes) -> str:
    return (await checks.authenticate(Presented(data))).role


@pytest.mark.parametrize("kind", HASHES)
async def test_each_kind_of_hash_verifies_its_password_alone(kind: str, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(f"# people\n\n{kind}:{HASHES[kind]}\n")
    checks = provider(users)
    assert await role(checks, f"{kind}:secret".encode()) == kind
    for data in (f"{kind}:Secret", f"{kind}:", f"{kind}:secret\0more", "other:secret", kind, ""):
        with pytest.raises(AuthenticationFailed, match="Failed to authenticate"):
            await role(checks, data.encode())
    with pytest.raises(AuthenticationFailed):
        await role(checks, b"\xff:secret")


@pytest.mark.parametrize("password", APR1)
def test_hashes_of_apache_are_those_of_openssl(password: str) -> None:
    assert verifies(APR1[password], password.encode())


@pytest.mark.parametrize(
    "stored", ["secret", "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "$apr1$x$y", "$9$x", "ab", ""]
)
def test_a_hash_of_no_known_form_is_refused(stored: str) -> None:
    with pytest.raises(ValueError, match="not a hash of htpasswd"):
        check_form(stored)


def test_a_kind_that_the_system_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_hashes, "_is_supported", lambda kind: False)
    with pytest.raises(ValueError, match=r"crypt\(3\) does not support 2 hashes"):
        check_form(HASHES["bcrypt"])
    check_form(HASHES["apr1"])


async def test_an_unknown_user_costs_as_much_as_a_known_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "users"
    users.write_text(f"user:{HASHES['bcrypt']}\n")
    compared: list[str] = []

    def record(stored: str, password: bytes) -> bool:
        compared.append(stored)
        return verifies(stored, password)

    monkeypatch.setattr(basic_provider, "verifies", record)
    checks = provider(users)
    for data in (b"nobody:secret", b"user:wrong"):
        with pytest.raises(AuthenticationFailed) as refused:
            await role(checks, data)
        assert refused.value.reason == "Unknown user or invalid password"
    assert compared == [HASHES["bcrypt"]] * 2


async def test_a_changed_file_is_read_again_and_a_broken_one_is_not_used(tmp_path: Path) -> None:
    users, wall = tmp_path / "users", Wall()
    users.write_text(f"old:{HASHES['apr1']}\n")
    checks = provider(users, wall)
    before = checks.revision()

    def write(text: str) -> None:
        users.write_text(text)
        os.utime(users, ns=(0, int(wall.now_s) * 10**9))
        wall.now_s += CHECK_S

    write("broken\n")
    assert await role(checks, b"old:secret") == "old"
    write(f"new:{HASHES['apr1']}\n")
    assert await role(checks, b"new:secret") == "new"
    with pytest.raises(AuthenticationFailed):
        await role(checks, b"old:secret")
    assert checks.revision() != before


async def test_too_many_checks_at_a_time_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(basic_provider, "PENDING_MAX", 3)
    users = tmp_path / "users"
    users.write_text(f"user:{HASHES['bcrypt']}\n")
    checks = provider(users)
    outcomes = await asyncio.gather(
        *(role(checks, b"user:secret") for _ in range(5)), return_exceptions=True
    )
    assert outcomes.count("user") == 3
    assert sum(isinstance(outcome, AuthenticationFailed) for outcome in outcomes) == 2


@pytest.mark.parametrize(
    ("configured", "reason"),
    [
        ("", "must name an htpasswd file"),
        ("file:///nowhere/users", "cannot read /nowhere/users"),
        ("user", "line 1: not a user and a hash"),
        (f"user:{HASHES['apr1']}\nother:plain", "line 2: not a hash"),
        ("# none", "no users"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_its_line(configured: str, reason: str) -> None:
    if configured and not configured.startswith("file:"):
        configured = f"data:;base64,{base64.b64encode(configured.encode()).decode()}"
    with pytest.raises(ProviderError, match=reason):
        read_users(configured)
