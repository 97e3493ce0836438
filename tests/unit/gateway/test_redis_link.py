"""Settings of the link to Redis: what is refused, and that no error and no representation shows the password."""

from typing import Any

import pytest

from engine.base.settings import SettingsError
from gateway.redis_link import RedisSettings


def test_a_password_is_in_the_url_for_celery_alone() -> None:
    link = RedisSettings("rediss://[::1]:6379/2", "app", "p@ss/word:%", "/ca")
    assert link.celery_url() == "rediss://app:p%40ss%2Fword%3A%25@[::1]:6379/2"
    assert "p@ss" not in repr(link)
    assert link.options()["ssl_ca_certs"] == "/ca"
    assert RedisSettings("redis://r:1").options() == {"username": None, "password": None}
    assert RedisSettings("redis://r:1", redis_password="p").celery_url() == "redis://:p@r:1"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"redis_url": "redis://app:hidden@r:1"}, "must not contain a user or a password"),
        ({"redis_url": "rediss://r:1/0?ssl_cert_reqs=none"}, "must be redis://host:port"),
        ({"redis_url": "unix:///tmp/r"}, "must be redis://host:port"),
        ({"redis_url": "redis://r", "redis_tls_trust_certs_file_path": "/ca"}, "rediss://"),
        ({"redis_url": "rediss://r", "redis_tls_key_file_path": "/k"}, "set together"),
        ({"redis_url": "redis://r", "redis_user": "u"}, "redis_password must be set"),
    ],
)
def test_settings_that_would_be_ignored_or_weaken_the_link_are_refused(
    given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(SettingsError, match=reason) as refused:
        RedisSettings(**given)
    assert "hidden" not in str(refused.value)
