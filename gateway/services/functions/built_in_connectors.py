"""Built-in connectors in configs of sources and sinks: their settings checked, their secrets hidden."""

from typing import Any

from engine.base.errors import InvalidRequest, NotFound, UnusableField
from engine.functions.connectors.built_in import ConnectorEnd
from engine.functions.connectors.catalogue import definitions, sink_end, source_end
from engine.functions.connectors.connector_settings import (
    checked,
    config_definition,
    masked,
    unmasked,
)
from engine.functions.definitions.config_fields import JsonConfig
from engine.functions.definitions.configs import Kind
from engine.functions.definitions.functions_pb2 import FunctionDetails


def listed(kind: Kind) -> list[dict[str, Any]]:
    """Return the definitions of the built-in sources or sinks; of both for functions."""
    ends = ("source", "sink") if kind == "function" else (kind,)
    return [
        {key: value for key, value in known.items() if value is not None}
        for known in definitions()
        if any(known[f"{end}Class"] is not None for end in ends)
    ]


def definition(kind: Kind, name: str) -> list[dict[str, Any]]:
    """Return the settings of a built-in connector as Pulsar's tools read them. Raises NotFound."""
    try:
        return config_definition(_end(kind, name).settings)
    except UnusableField as error:
        raise NotFound(error.reason) from error


def check(kind: Kind, details: FunctionDetails, config: JsonConfig) -> None:
    """Raise InvalidRequest for settings that the built-in connector of a config does not take."""
    if not details.builtin:
        return
    if kind == "function":
        raise InvalidRequest(f"No Function {details.builtin} found")  # none is built in
    try:
        end = _end(kind, details.builtin)
        checked(end.settings, config.get("configs", {}), config.get("secrets", {}))
    except UnusableField as error:
        raise InvalidRequest(error.reason) from error
    if details.parallelism > 1 and not end.several:
        raise InvalidRequest(f"parallelism: {details.builtin} has one instance")


def with_hidden_secrets(kind: Kind, details: FunctionDetails, config: JsonConfig) -> JsonConfig:
    """Return a config as it is shown, without the secrets in the settings of its built-in connector."""
    end = _known_end(kind, details)
    return config if end is None else config | {"configs": masked(end.settings, config["configs"])}


def with_stored_secrets(
    kind: Kind, details: FunctionDetails, stored: JsonConfig, update: JsonConfig
) -> JsonConfig:
    """Return an update in which hidden secrets are those of the stored config."""
    end = _known_end(kind, details)
    if end is None or "configs" not in update:
        return update
    return update | {"configs": unmasked(end.settings, update["configs"], stored["configs"])}


def with_masked_secrets(kind: Kind, builtin: str, configs: JsonConfig) -> JsonConfig:
    """Return settings of a built-in connector as they are shown; those of an unknown connector as they are."""
    try:
        return masked(_end(kind, builtin).settings, configs)
    except UnusableField:  # its deployment is refused
        return configs


def _known_end(kind: Kind, details: FunctionDetails) -> ConnectorEnd[Any] | None:
    if not details.builtin or kind == "function":
        return None
    try:
        return _end(kind, details.builtin)
    except UnusableField:  # of another version
        return None


def _end(kind: Kind, name: str) -> ConnectorEnd[Any]:
    return source_end(name) if kind == "source" else sink_end(name)
