"""The fields of FunctionConfig, SinkConfig and SourceConfig with their types, as JSON in Pulsar's REST interface.

Fields without a row are accepted and ignored, as Apache's workers do; null is the same as absent.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from engine.base.errors import InvalidField, InvalidNameError, InvalidRequest
from engine.base.names import TopicName

JsonConfig = dict[str, Any]
"""A config without nulls and unknown fields."""
Check = Callable[[str, Any], Any]
"""Returns the value of a field, given its name. Raises InvalidField."""
INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
PARALLELISM_MAX = 1_000
TEXT_BYTES_MAX = 64 << 10
NAME_CHARACTERS_MAX = 200
GUARANTEES = ("ATLEAST_ONCE", "ATMOST_ONCE", "EFFECTIVELY_ONCE", "MANUAL")
POSITIONS = {"latest": "Latest", "earliest": "Earliest"}
_NAME = re.compile(r"[-=.\w]+", re.ASCII)
_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*", re.ASCII)


def text(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidField(field, "must be a string")
    if len(value) > TEXT_BYTES_MAX:
        raise InvalidField(field, f"must have at most {TEXT_BYTES_MAX} characters")
    return value


def class_name(field: str, value: Any) -> str:
    """Return the name of a class of the user's code, which no other text can be."""
    if text(field, value) and (_CLASS.fullmatch(value) is None or len(value) > 1_000):
        raise InvalidField(field, "must be names of a module and a class, with dots between them")
    return str(value)


def boolean(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidField(field, "must be true or false")
    return value


def whole(low: int, high: int) -> Check:
    def check(field: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InvalidField(field, f"must be a whole number from {low} to {high}")
        return value

    return check


def number(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidField(field, "must be a number")
    return float(value)


def one_of(*values: str) -> Check:
    def check(field: str, value: Any) -> str:
        if value not in values:
            raise InvalidField(field, f"must be one of {', '.join(values)}")
        return str(value)

    return check


def position(field: str, value: Any) -> str:
    known = POSITIONS.get(text(field, value).lower())
    if known is None:
        raise InvalidField(field, f"must be one of {', '.join(POSITIONS.values())}")
    return known


def texts(field: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        raise InvalidField(field, "must be an array of strings")
    return [text(f"{field}[{i}]", item) for i, item in enumerate(value)]


def json_object(field: str, value: Any) -> JsonConfig:
    if not isinstance(value, dict):
        raise InvalidField(field, "must be a JSON object")
    return value


def by_name(check: Check) -> Check:
    def check_all(field: str, value: Any) -> JsonConfig:
        members = json_object(field, value).items()
        return {name: check(f"{field}.{name}", item) for name, item in members if item is not None}

    return check_all


def of(fields: Mapping[str, Check]) -> Check:
    def check(field: str, value: Any) -> JsonConfig:
        return checked(json_object(field, value), fields, f"{field}.")

    return check


def checked(config: Mapping[str, Any], fields: Mapping[str, Check], within: str = "") -> JsonConfig:
    """Return the config's known fields. Raises InvalidField."""
    return {
        name: check(f"{within}{name}", config[name])
        for name, check in fields.items()
        if config.get(name) is not None
    }


int32, long64, count = (
    whole(-INT_MAX - 1, INT_MAX),
    whole(-LONG_MAX - 1, LONG_MAX),
    whole(0, INT_MAX),
)
CRYPTO: dict[str, Check] = {
    "cryptoKeyReaderClassName": class_name,
    "cryptoKeyReaderConfig": json_object,
    "encryptionKeys": texts,
    "producerCryptoFailureAction": one_of("FAIL", "SEND"),
    "consumerCryptoFailureAction": one_of("FAIL", "DISCARD", "CONSUME"),
}
CONSUMER: dict[str, Check] = {
    "schemaType": text,
    "serdeClassName": text,
    "regexPattern": boolean,
    "isRegexPattern": boolean,
    "schemaProperties": by_name(text),
    "consumerProperties": by_name(text),
    "receiverQueueSize": int32,
    "cryptoConfig": of(CRYPTO),
    "poolMessages": boolean,
}
BATCHING: dict[str, Check] = {
    "enabled": boolean,
    "batchingMaxPublishDelayMs": count,
    "roundRobinRouterBatchingPartitionSwitchFrequency": count,
    "batchingMaxMessages": count,
    "batchingMaxBytes": count,
    "batchBuilder": text,
}
PRODUCER: dict[str, Check] = {
    "maxPendingMessages": count,
    "maxPendingMessagesAcrossPartitions": count,
    "useThreadLocalProducers": boolean,
    "cryptoConfig": of(CRYPTO),
    "batchBuilder": text,
    "compressionType": one_of("LZ4", "NONE", "ZLIB", "ZSTD", "SNAPPY"),
    "batchingConfig": of(BATCHING),
}
RESOURCES: dict[str, Check] = {"cpu": number, "ram": long64, "disk": long64}
WINDOW: dict[str, Check] = {
    "windowLengthCount": int32,
    "windowLengthDurationMs": long64,
    "slidingIntervalCount": int32,
    "slidingIntervalDurationMs": long64,
    "lateDataTopic": text,
    "maxLagMs": long64,
    "watermarkEmitIntervalMs": long64,
    "timestampExtractorClassName": class_name,
    "actualWindowFunctionClassName": class_name,
}
_COMMON: dict[str, Check] = {
    "tenant": text,
    "namespace": text,
    "name": text,
    "className": class_name,
    "processingGuarantees": one_of(*GUARANTEES),
    "secrets": json_object,
    "parallelism": int32,
    "resources": of(RESOURCES),
    "runtimeFlags": text,
    "customRuntimeOptions": text,
    "logTopic": text,
}
_READING: dict[str, Check] = {
    "inputs": texts,
    "topicsPattern": text,
    "inputSpecs": by_name(of(CONSUMER)),
    "retainOrdering": boolean,
    "retainKeyOrdering": boolean,
    "autoAck": boolean,
    "timeoutMs": long64,
    "maxMessageRetries": int32,
    "deadLetterTopic": text,
    "cleanupSubscription": boolean,
}
FUNCTION: dict[str, Check] = {
    **_COMMON,
    **_READING,
    "customSerdeInputs": by_name(text),
    "customSchemaInputs": by_name(text),
    "customSchemaOutputs": by_name(text),
    "inputTypeClassName": text,
    "output": text,
    "outputSchemaType": text,
    "outputSerdeClassName": text,
    "outputTypeClassName": text,
    "producerConfig": of(PRODUCER),
    "batchBuilder": text,
    "forwardSourceMessageProperty": boolean,
    "userConfig": json_object,
    "runtime": one_of("JAVA", "PYTHON", "GO"),
    "subName": text,
    "windowConfig": of(WINDOW),
    "jar": text,
    "py": text,
    "go": text,
    "functionType": text,
    "skipToLatest": boolean,
    "subscriptionPosition": position,
}
SINK: dict[str, Check] = {
    **_COMMON,
    **_READING,
    "sinkType": text,
    "archive": text,
    "topicToSerdeClassName": by_name(text),
    "topicToSchemaType": by_name(text),
    "topicToSchemaProperties": by_name(text),
    "sourceSubscriptionName": text,
    "sourceSubscriptionPosition": position,
    "configs": json_object,
    "negativeAckRedeliveryDelayMs": whole(0, LONG_MAX),
    "transformFunction": text,
    "transformFunctionClassName": class_name,
    "transformFunctionConfig": text,
}
SOURCE: dict[str, Check] = {
    **_COMMON,
    "sourceType": text,
    "archive": text,
    "topicName": text,
    "producerConfig": of(PRODUCER),
    "batchBuilder": text,
    "serdeClassName": text,
    "schemaType": text,
    "configs": json_object,
    "batchSourceConfig": json_object,
}


def full_topic(name: str, refusal: str) -> str:
    """Return the full name of a topic. Raises InvalidRequest with ``refusal``, whose %s is the name."""
    try:
        return str(TopicName.parse(name))
    except InvalidNameError as error:
        reason = refusal % name if "%s" in refusal else refusal
        raise InvalidRequest(reason) from error


def check_name(config: JsonConfig, kind: str) -> None:
    """Raise InvalidRequest unless the config has the names of a function, sink or source (``kind``)."""
    for field in ("tenant", "namespace", "name"):
        if not config.get(field):
            raise InvalidRequest(f"{kind} {field} cannot be null")
    name = config["name"]
    if _NAME.fullmatch(name) is None or name in (".", "..") or len(name) > NAME_CHARACTERS_MAX:
        limit = f"at most {NAME_CHARACTERS_MAX} letters, digits and - = . _"
        raise InvalidField("name", f"must have {limit}")


def check_parallelism(config: JsonConfig, kind: str) -> None:
    """Raise InvalidRequest unless the number of instances is one that may be asked for."""
    given = config.get("parallelism", 1)
    if given <= 0:
        raise InvalidRequest(f"{kind} parallelism must be a positive number")
    if given > PARALLELISM_MAX:
        raise InvalidField("parallelism", f"must be at most {PARALLELISM_MAX}")


def check_resources(config: JsonConfig) -> None:
    """Raise InvalidRequest for a resource that is not positive."""
    for name, value in config.get("resources", {}).items():
        if value <= 0:
            raise InvalidRequest(f"The {name} allocation for the function must be positive")


def check_ordering(config: JsonConfig) -> None:
    """Raise InvalidRequest for orders that exclude each other or the guarantee."""
    by_key = config.get("retainKeyOrdering", False)
    if by_key and config.get("processingGuarantees") == "EFFECTIVELY_ONCE":
        raise InvalidRequest(
            "When effectively once processing guarantee is specified, retain Key ordering cannot be set"
        )
    if by_key and config.get("retainOrdering", False):
        raise InvalidRequest("Only one of retain ordering or retain key ordering can be set")
