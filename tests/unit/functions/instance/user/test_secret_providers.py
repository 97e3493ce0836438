"""Secrets: from the settings, the environment, or a provider of the operator's."""

import sys
from pathlib import Path

import pytest

from engine.functions.instance.user.secret_providers import provider_of
from engine.functions.instance.user.user_code import UserCodeError


def test_clear_secrets_are_what_the_settings_say() -> None:
    for name in ("", "clear", "secretsprovider.ClearTextSecretsProvider"):
        assert provider_of(name, {}).provide_secret("password", "p") == "p"


def test_secrets_of_the_environment_are_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "p")
    provider = provider_of("secretsprovider.EnvironmentBasedSecretsProvider", {})
    assert provider.provide_secret("DB_PASSWORD", "ignored") == "p"
    assert provider.provide_secret("ABSENT", "ignored") is None


def test_a_provider_of_the_operators_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vaults.py").write_text(
        "class Vault:\n"
        "    def init(self, config): self.prefix = config['prefix']\n"
        "    def provide_secret(self, name, path): return self.prefix + path\n"
        "class Half:\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "vaults", raising=False)
    assert provider_of("vaults.Vault", {"prefix": "v:"}).provide_secret("a", "b") == "v:b"
    with pytest.raises(UserCodeError, match=r"vaults\.Half has no provide_secret"):
        provider_of("vaults.Half", {})
