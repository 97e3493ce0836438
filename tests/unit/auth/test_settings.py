"""Settings of authentication that do not go together are refused."""

import pytest

from engine.auth.internal import INTERNAL_ROLE
from engine.auth.settings import AuthenticationSettings


@pytest.mark.parametrize("role", [INTERNAL_ROLE, "proxy"])
def test_anonymous_clients_have_no_role_of_the_instances_own(role: str) -> None:
    with pytest.raises(ValueError, match="anonymous_user_role must not be"):
        AuthenticationSettings(anonymous_user_role=role, proxy_roles="proxy,other")
    AuthenticationSettings(anonymous_user_role="guest", proxy_roles="proxy")
