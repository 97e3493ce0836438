"""SourceConfig: a source as Pulsar's REST interface has it, and its record FunctionDetails."""

import json

from engine.base.errors import InvalidRequest
from engine.functions.definitions.config_fields import (
    JsonConfig,
    check_name,
    check_parallelism,
    check_resources,
    full_topic,
)
from engine.functions.definitions.ends import (
    builtin_of,
    common_config,
    compact,
    producer_json,
    put_common,
    put_publishing,
)
from engine.functions.definitions.functions_pb2 import FunctionDetails


def details_of(config: JsonConfig) -> FunctionDetails:
    """Return the record of a source's config. Raises InvalidRequest with Apache's texts."""
    check_name(config, "Source")
    topic = config.get("topicName", "")
    if not topic:
        raise InvalidRequest("Topic name is invalid")
    full = full_topic(topic, "Topic name is invalid")
    check_parallelism(config, "Source")
    check_resources(config)
    if config.get("serdeClassName") and config.get("schemaType"):
        raise InvalidRequest("Only one of serdeClassName or schemaType should be set")
    if "batchSourceConfig" in config:
        raise InvalidRequest("batchSourceConfig: batch sources are not offered")
    details = FunctionDetails(componentType=FunctionDetails.ComponentType.SOURCE, autoAck=True)
    put_common(details, config)
    source, sink = details.source, details.sink
    source.className = config.get("className", "")
    source.builtin = details.builtin = builtin_of(
        config.get("sourceType") or config.get("archive") or ""
    )
    source.configs = compact(config.get("configs", {}))
    sink.topic = full
    sink.serDeClassName = config.get("serdeClassName", "")
    sink.schemaType = config.get("schemaType", "")
    put_publishing(sink, config)
    return details


def config_of(details: FunctionDetails) -> JsonConfig:
    """Return the config of a stored source, as Apache's workers show it."""
    source, sink = details.source, details.sink
    config = common_config(details) | {
        "topicName": sink.topic,
        "producerConfig": producer_json(sink.producerSpec),
        "configs": json.loads(source.configs or "{}"),
    }
    texts = {
        "className": source.className,
        "archive": f"builtin://{source.builtin}" if source.builtin else "",
        "serdeClassName": sink.serDeClassName,
        "schemaType": sink.schemaType,
    }
    return config | {field: value for field, value in texts.items() if value}
