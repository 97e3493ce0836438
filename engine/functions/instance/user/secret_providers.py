"""Providers of the values of a function's secrets."""

import os
from collections.abc import Mapping
from typing import Any, Protocol

from engine.functions.instance.user.user_code import UserCodeError, load

CLEAR = ("", "clear", "secretsprovider.ClearTextSecretsProvider")
ENVIRONMENT = ("environment", "secretsprovider.EnvironmentBasedSecretsProvider")


class SecretsProvider(Protocol):
    """Gives the values of secrets, as Apache's Python interface."""

    def provide_secret(self, secret_name: str, path_to_secret: Any) -> Any:
        """Return the value; None without one. ``path_to_secret``: what the function's settings say of it."""
        ...


class ClearSecrets:
    """Secrets that the function's settings contain themselves."""

    def provide_secret(self, secret_name: str, path_to_secret: Any) -> Any:
        return path_to_secret


class EnvironmentSecrets:
    """Secrets in variables of the environment that the worker gave to the instance."""

    def provide_secret(self, secret_name: str, path_to_secret: Any) -> Any:
        return os.environ.get(secret_name)


def provider_of(name: str, settings: Mapping[str, str]) -> SecretsProvider:
    """Return a provider, of ours or ``module.Class``, after its ``init``. Raises UserCodeError."""
    if name in CLEAR:
        return ClearSecrets()
    if name in ENVIRONMENT:
        return EnvironmentSecrets()
    provider = load(name)()
    if not callable(getattr(provider, "provide_secret", None)):
        raise UserCodeError(f"secrets provider {name} has no provide_secret")
    if hasattr(provider, "init"):
        provider.init(dict(settings))
    checked: SecretsProvider = provider
    return checked
