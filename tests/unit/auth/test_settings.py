"""Settings of authentication that do not go together are refused."""

import pytest

from engine.auth.internal import INTERNAL_ROLE
from engine.auth.settings import AuthenticationSettings, AuthorizationSettings, IdentitySettings


@pytest.mark.parametrize("role", [INTERNAL_ROLE, "proxy"])
def test_anonymous_clients_have_no_role_of_the_instances_own(role: str) -> None:
    with pytest.raises(ValueError, match="anonymous_user_role must not be"):
        AuthenticationSettings(anonymous_user_role=role, proxy_roles="proxy,other")
    AuthenticationSettings(anonymous_user_role="guest", proxy_roles="proxy")


def test_other_rules_than_pulsars_are_refused_by_name() -> None:
    other = "org.apache.pulsar.broker.authorization.MultiRolesTokenAuthorizationProvider"
    with pytest.raises(ValueError, match=r"authorization_provider must be .*, not '.*MultiRoles"):
        AuthorizationSettings(authorization_provider=other)


def test_authorization_without_authentication_is_refused() -> None:
    with pytest.raises(ValueError, match="authentication_enabled must be true where"):
        IdentitySettings(authorization=AuthorizationSettings(authorization_enabled=True))
