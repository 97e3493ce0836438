"""The setting ``apache_clusters``."""

from pathlib import Path

import pytest

from engine.base.settings import SettingsError
from gateway.apache_settings import ApacheCluster, apache_clusters


def test_clusters_are_named_with_their_files(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    given = f"us=https://a:8443/ eu=http://b:8080/pulsar|token_file={token}|remote=europe"
    us, eu = apache_clusters(given)
    assert us == ApacheCluster("us", "https://a:8443")
    assert us.own_name == "us"
    assert eu == ApacheCluster("eu", "http://b:8080/pulsar", "europe", str(token))
    assert eu.own_name == "europe"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("us=ftp://a", "must be http://host:port"),
        ("us", "must be http://host:port"),
        ("u s=http://a", "must be http://host:port"),
        ("us=http://a us=http://b", "once, not 'us' again"),
        ("us=http://a|token=secret", "must be one of remote, token_file"),
        ("us=http://a|tls_key=/dev/null", "must be set together"),
        ("us=http://a|token_file=/not/there", "/not/there, which is missing"),
    ],
)
def test_a_wrong_entry_is_refused_by_its_rule(given: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        apache_clusters(given)


def test_a_secret_in_the_wrong_place_is_not_repeated() -> None:
    for given in ("us=http://me:s3cret@a", "us=http://a|token=s3cret"):
        with pytest.raises(SettingsError) as caught:
            apache_clusters(given)
        assert "s3cret" not in str(caught.value)
