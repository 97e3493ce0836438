"""The role by which a broker logs in at brokers is checked at the start."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.auth.authenticators.provider import ProviderError
from engine.auth.certificate_authority import client_certificate, new_authority
from engine.auth.credentials import AuthenticationFailed, Credentials, RolesRefused
from engine.auth.identity import Identity
from engine.auth.own_role import check_own_role

SUPERUSERS = frozenset({"root"})


def present(challenge: bytes) -> tuple[str, bytes]:
    return "token", b"a token"


async def later(credentials: Credentials) -> Identity:
    return Identity("app")


async def test_a_superuser_is_accepted() -> None:
    await check_own_role(lambda credentials: Identity("root"), present, "", SUPERUSERS)


async def test_another_role_is_refused_by_name() -> None:
    with pytest.raises(ProviderError, match="role 'app' must be in super_user_roles"):
        await check_own_role(later, present, "", SUPERUSERS)


async def test_the_role_of_a_proxy_is_refused() -> None:
    def refuse(credentials: Credentials) -> Identity:
        raise RolesRefused("Invalid roles.")

    with pytest.raises(ProviderError, match="must not be in proxy_roles"):
        await check_own_role(refuse, present, "", SUPERUSERS)


async def test_credentials_that_are_not_accepted_now_are_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(credentials: Credentials) -> Identity:
        raise AuthenticationFailed("the token has expired")

    await check_own_role(refuse, present, "", SUPERUSERS)
    assert "cannot log in at brokers by them now: the token has expired" in caplog.text
    assert "a token" not in caplog.text


@pytest.mark.parametrize(("role", "accepted"), [("root", True), ("app", False)])
async def test_the_role_of_a_certificate_is_its_common_name(
    role: str, accepted: bool, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    file = tmp_path / "broker.pem"
    file.write_bytes(client_certificate(new_authority(now, 9), role, now, 1, "0:b").certificate)
    check = check_own_role(later, lambda challenge: ("tls", b""), str(file), SUPERUSERS)
    if accepted:
        await check
    else:
        with pytest.raises(ProviderError, match="role 'app' must be in super_user_roles"):
            await check
