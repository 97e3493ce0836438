"""Settings of sign-in and of its providers, which are named."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from engine.base.settings import SettingsError
from gateway.environment import load
from gateway.sign_in import GroupRule, ProviderSettings

TABLES = """
sign_in_providers = "corp, other"
[provider_corp]
title = "Corporate"
issuer = "https://id.example/realm"
client_id = "m"
client_secret = "hidden"
groups_roles = "cn=a,dc=b=root:full ; * = guest:read"
[provider_other]
issuer = "http://127.0.0.1:1"
client_id = "m2"
groups_roles = "x=y:operate"
"""


def test_providers_are_read_from_their_tables_and_variables(tmp_path: Path) -> None:
    (tmp_path / "magnetar.toml").write_text(TABLES)
    environ = {"MAGNETAR_PROVIDER_CORP_CLIENT_ID": "from the environment"}
    corp, other = load(environ, tmp_path).sign_in.providers
    assert (corp.name, corp.title, corp.client_id) == ("corp", "Corporate", "from the environment")
    assert corp.rules == (GroupRule("cn=a,dc=b", "root", "full"), GroupRule("*", "guest", "read"))
    assert (other.name, other.title, other.secret()) == ("other", "other", "")
    assert "hidden" not in repr(corp)


def test_the_secret_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("s3\n")
    path.chmod(0o600)
    assert ProviderSettings(client_secret=path.as_uri()).secret() == "s3"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('sign_in_providers = "Corp"', "sign_in_providers must be names of small letters"),
        ('sign_in_providers = "a,a"', "each once"),
        ('sign_in_providers = "corp"', r"issuer of \[provider_corp\] must be set"),
        (TABLES.replace("https://id", "http://id"), "issuer must be https://"),
        (TABLES.replace("root:full", "root:all"), "groups_roles must be group=role:level"),
        (TABLES.replace("root:full", "full"), "groups_roles must be group=role:level"),
        (TABLES.replace("client_id", "client_ids"), "unknown setting client_ids"),
        (TABLES + 'scopes = "email"', "scopes must contain openid"),
    ],
)
def test_a_wrong_provider_ends_the_start(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "magnetar.toml").write_text(text)
    with pytest.raises((ImproperlyConfigured, SettingsError), match=words) as refused:
        load({}, tmp_path)
    assert "hidden" not in str(refused.value)
