"""Configs of functions, sinks and sources by component: parsed, stored, shown, and merged with an update."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from engine.base.errors import InvalidRequest
from engine.functions.definitions import function_config, sink_config, source_config
from engine.functions.definitions.config_fields import (
    FUNCTION,
    SINK,
    SOURCE,
    Check,
    JsonConfig,
    checked,
)
from engine.functions.definitions.ends import input_specs
from engine.functions.definitions.functions_pb2 import FunctionDetails
from engine.functions.definitions.records import component_of

Kind = Literal["function", "source", "sink"]


class ComponentForm(NamedTuple):
    """Reading and writing of configs of one component. ``inputs``: fields that name input topics with a text."""

    fields: Mapping[str, Check]
    details_of: Callable[[JsonConfig], FunctionDetails]
    config_of: Callable[[FunctionDetails], JsonConfig]
    inputs: Mapping[str, str]


FORMS: dict[Kind, ComponentForm] = {
    "function": ComponentForm(
        FUNCTION,
        function_config.details_of,
        function_config.config_of,
        function_config.INPUT_FIELDS,
    ),
    "sink": ComponentForm(
        SINK, sink_config.details_of, sink_config.config_of, sink_config.INPUT_FIELDS
    ),
    "source": ComponentForm(SOURCE, source_config.details_of, source_config.config_of, {}),
}
FIXED = {
    "tenant": "Tenants differ",
    "namespace": "Namespaces differ",
    "name": "{} Names differ",
    "outputSerdeClassName": "Output Serde mismatch",
    "outputSchemaType": "Output Schema mismatch",
    "processingGuarantees": "Processing Guarantees cannot be altered",
    "retainOrdering": "Retain Ordering cannot be altered",
    "retainKeyOrdering": "Retain Key Ordering cannot be altered",
    "runtime": "Runtime cannot be altered",
    "autoAck": "AutoAck cannot be altered",
    "subName": "Subscription Name cannot be altered",
    "sourceSubscriptionName": "Subscription Name cannot be altered",
}
"""Fields that an update may not change, with Apache's texts. {} is the component."""
INPUTS = ("inputs", "topicsPattern", "inputSpecs")
MERGED = frozenset({"resources"})
"""Fields of which an update may name single members; others it replaces as a whole."""


def parse_config(kind: Kind, given: object) -> JsonConfig:
    """Return the known fields of a given config. Raises InvalidRequest."""
    if not isinstance(given, dict):
        raise InvalidRequest(f"{kind.capitalize()} config is not provided")
    return checked(given, FORMS[kind].fields)


def details_of(kind: Kind, config: JsonConfig, file_name: str = "") -> FunctionDetails:
    """Return the record of a valid config. Raises InvalidRequest with Apache's texts.

    ``file_name``: that of the package, which may say the language of a function.
    """
    if kind == "function":
        return function_config.details_of(config, file_name)
    return FORMS[kind].details_of(config)


def config_of(details: FunctionDetails) -> JsonConfig:
    """Return the config of a stored function, sink or source, as Apache's workers show it."""
    return FORMS[component_of(details)].config_of(details)


def merged(kind: Kind, stored: JsonConfig, update: JsonConfig) -> JsonConfig:
    """Return the stored config with the fields that an update names.

    Raises InvalidRequest with Apache's texts for a field that may not change.
    """
    for field, refusal in FIXED.items():
        present = stored.get(field, "")
        if update.get(field) not in (None, "", present):
            raise InvalidRequest(refusal.format(_subject(kind)))
    by_topic = FORMS[kind].inputs
    named = {**dict.fromkeys(INPUTS), **by_topic}
    result = stored | {
        field: value for field, value in update.items() if field not in named and value != ""
    }
    for field in MERGED & update.keys():
        result[field] = stored.get(field, {}) | update[field]
    if kind != "source":
        result["inputSpecs"] = _same_inputs(
            stored["inputSpecs"], input_specs(update, by_topic=by_topic)
        )
        result.pop("inputs", None)
    return result


def _subject(kind: Kind) -> str:
    # Apache calls a source a function here.
    return "Sink" if kind == "sink" else "Function"


def _same_inputs(stored: dict[str, Any], given: dict[str, JsonConfig]) -> dict[str, Any]:
    """Return the ConsumerConfigs with those that are given. Raises InvalidRequest for a new topic."""
    result = dict(stored)
    for topic, spec in given.items():
        if topic not in stored:
            raise InvalidRequest("Input Topics cannot be altered")
        is_pattern = spec.get("regexPattern", spec.get("isRegexPattern"))
        if is_pattern is not None and is_pattern != stored[topic]["regexPattern"]:
            raise InvalidRequest(f"isRegexPattern for input topic {topic} cannot be altered")
        result[topic] = stored[topic] | spec
    return result
