"""SinkConfig: a sink as Pulsar's REST interface has it, and its record FunctionDetails."""

import json

from engine.base.errors import InvalidRequest
from engine.functions.definitions.config_fields import (
    JsonConfig,
    check_name,
    check_parallelism,
    check_resources,
)
from engine.functions.definitions.ends import (
    builtin_of,
    check_reading,
    check_specs,
    common_config,
    compact,
    input_specs,
    position_of,
    put_common,
    put_reading,
    reading_config,
)
from engine.functions.definitions.functions_pb2 import FunctionDetails

INPUT_FIELDS = {"topicToSerdeClassName": "serdeClassName", "topicToSchemaType": "schemaType"}


def details_of(config: JsonConfig) -> FunctionDetails:
    """Return the record of a sink's config. Raises InvalidRequest with Apache's texts."""
    check_name(config, "Sink")
    specs = input_specs(config, by_topic=INPUT_FIELDS)
    if not specs:
        raise InvalidRequest(
            "Must specify at least one topic of input via topicToSerdeClassName, topicsPattern, topicToSchemaType or "
            "inputSpecs"
        )
    check_parallelism(config, "Sink")
    check_resources(config)
    check_reading(config, "Sink")
    check_specs(specs, "Only one of serdeClassName or schemaType should be set")
    if config.get("transformFunction"):
        raise InvalidRequest(
            "transformFunction: is not offered; let a function write to the sink's input topic"
        )
    details = FunctionDetails(componentType=FunctionDetails.ComponentType.SINK)
    put_common(details, config)
    put_reading(details, config, specs)
    sink = details.sink
    sink.className = config.get("className", "")
    sink.builtin = details.builtin = builtin_of(
        config.get("sinkType") or config.get("archive") or ""
    )
    sink.configs = compact(config.get("configs", {}))
    return details


def config_of(details: FunctionDetails) -> JsonConfig:
    """Return the config of a stored sink, as Apache's workers show it."""
    source, sink = details.source, details.sink
    config = common_config(details) | reading_config(details)
    config |= {
        "inputs": list(config["inputSpecs"]),
        "sourceSubscriptionPosition": position_of(source),
        "configs": json.loads(sink.configs or "{}"),
    }
    texts = {
        "className": sink.className,
        "archive": f"builtin://{sink.builtin}" if sink.builtin else "",
        "sourceSubscriptionName": source.subscriptionName,
    }
    config |= {field: value for field, value in texts.items() if value}
    if source.negativeAckRedeliveryDelayMs:
        config["negativeAckRedeliveryDelayMs"] = source.negativeAckRedeliveryDelayMs
    return config
