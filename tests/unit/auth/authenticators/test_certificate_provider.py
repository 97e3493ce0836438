"""Roles by the certificate that a client presented."""

from typing import Any

import pytest

from engine.auth.authenticators.certificate_provider import CertificateProvider, common_name
from engine.auth.authenticators.provider import Authenticated, Presented
from engine.auth.credentials import AuthenticationFailed

NOT_AFTER = "Nov 14 22:13:20 2023 GMT"
ENDS_AT = 1_700_000_000.0


def certificate(*subject: tuple[tuple[str, str], ...], **given: Any) -> dict[str, Any]:
    return {"subject": subject, "notAfter": NOT_AFTER, **given}


def cn(name: str) -> tuple[tuple[str, str], ...]:
    return (("commonName", name),)


APP = certificate((("organizationName", "Example"),), cn("app"))


def test_the_role_is_the_common_name_until_the_end_of_the_certificate() -> None:
    provider = CertificateProvider(lambda: ENDS_AT - 1)
    presented = Presented(b"ignored", APP)
    assert provider.authenticate(presented) == Authenticated("app", ENDS_AT)
    with pytest.raises(AuthenticationFailed, match="Failed to authenticate"):
        CertificateProvider(lambda: ENDS_AT).authenticate(presented)


def test_the_most_specific_common_name_counts() -> None:
    assert common_name(certificate(cn("authority"), cn("app"))) == "app"
    both = (("organizationalUnitName", "x"), ("commonName", "first"), ("commonName", "second"))
    assert common_name(certificate(both)) == "first"


@pytest.mark.parametrize(
    "presented",
    [
        None,
        {},
        certificate((("organizationName", "Example"),)),
        certificate(cn(" ")),
        {"subject": (cn("app"),)},
        certificate(cn("app"), notAfter="soon"),
    ],
)
def test_a_client_without_a_usable_certificate_is_refused(presented: Any) -> None:
    with pytest.raises(AuthenticationFailed):
        CertificateProvider(lambda: 0.0).authenticate(Presented(b"", presented))
