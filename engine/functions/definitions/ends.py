"""The parts that configs of functions, sinks and sources share: topics to read, ways of publishing, resources."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from engine.base.errors import InvalidRequest
from engine.functions.definitions.config_fields import (
    CONSUMER,
    JsonConfig,
    check_ordering,
    checked,
    full_topic,
)
from engine.functions.definitions.functions_pb2 import (
    BatchingSpec,
    CompressionType,
    ConsumerSpec,
    CryptoSpec,
    FunctionDetails,
    ProcessingGuarantees,
    ProducerSpec,
    Resources,
    SinkSpec,
    SourceSpec,
    SubscriptionPosition,
    SubscriptionType,
)

DEFAULT_RESOURCES = {"cpu": 1.0, "ram": 1 << 30, "disk": 10 << 30}
INVALID_INPUT = "Input topic %s is invalid"
_RETRIES_AND_ONCE = "MaxMessageRetries and Effectively once don't gel well"


def compact(value: Any) -> str:
    """Return JSON text as Apache's workers write it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def builtin_of(archive: str) -> str:
    """Return the name in ``builtin://name``; empty for another archive."""
    return archive.removeprefix("builtin://") if archive.startswith("builtin://") else ""


# What is read


def input_specs(config: JsonConfig, *, by_topic: Mapping[str, str]) -> dict[str, JsonConfig]:
    """Return the ConsumerConfig of each input topic or pattern; the later of two for the same one counts.

    ``by_topic``: fields that map topics to texts, with the member of ConsumerConfig that the text is; an empty member
    is a whole ConsumerConfig as JSON text. Raises InvalidRequest.
    """
    specs: dict[str, JsonConfig] = {}

    def add(topic: str, spec: JsonConfig) -> None:
        is_pattern = spec.get("regexPattern", spec.get("isRegexPattern", False))
        key = topic if is_pattern else full_topic(topic, INVALID_INPUT)
        specs[key] = specs.get(key, {}) | spec

    for topic in config.get("inputs", []):
        add(topic, {})
    if pattern := config.get("topicsPattern"):
        add(pattern, {"regexPattern": True})
    for field, member in by_topic.items():
        for topic, value in config.get(field, {}).items():
            add(topic, {member: value} if member else consumer_config(topic, value))
    for topic, spec in config.get("inputSpecs", {}).items():
        add(topic, spec)
    return specs


def consumer_config(topic: str, value: str) -> JsonConfig:
    """Parse a ConsumerConfig in a text. Raises InvalidRequest."""
    try:
        return checked(dict(json.loads(value)), CONSUMER)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"Incorrect custom schema inputs,Topic {topic}") from error


def check_specs(specs: Mapping[str, JsonConfig], both: str) -> None:
    """Raise InvalidRequest for a ConsumerConfig that cannot be used. ``both``: the text for one with schema and
    serde."""
    for spec in specs.values():
        if spec.get("schemaType") and spec.get("serdeClassName"):
            raise InvalidRequest(both)
        if spec.get("receiverQueueSize", 0) < 0:
            raise InvalidRequest("Receiver queue size should be >= zero")
        check_crypto(spec.get("cryptoConfig"))


def check_crypto(crypto: JsonConfig | None, *, publishes: bool = False) -> None:
    """Raise InvalidRequest for settings of encryption that lack a part."""
    if crypto is None:
        return
    if not crypto.get("cryptoKeyReaderClassName"):
        raise InvalidRequest("CryptoKeyReader class name required")
    if publishes and not crypto.get("encryptionKeys"):
        raise InvalidRequest("Must provide encryption key name for crypto key reader")


def check_reading(config: JsonConfig, kind: str) -> None:
    """Raise InvalidRequest for settings of consumption that exclude each other."""
    guarantee, retries = config.get("processingGuarantees"), config.get("maxMessageRetries")
    timeout_ms = config.get("timeoutMs")
    if timeout_ms is not None and timeout_ms < 0:
        raise InvalidRequest(f"{kind} timeout must be a positive number")
    if timeout_ms and guarantee not in (None, "ATLEAST_ONCE"):
        raise InvalidRequest(
            "Message timeout can only be specified with processing guarantee is ATLEAST_ONCE"
        )
    if retries is not None and retries >= 0 and guarantee == "EFFECTIVELY_ONCE":
        raise InvalidRequest(_RETRIES_AND_ONCE)
    if config.get("deadLetterTopic"):
        if retries is None or retries < 0:
            raise InvalidRequest(
                "Dead Letter Topic specified, however max retries is set to infinity"
            )
        full_topic(config["deadLetterTopic"], "DeadLetter topic %s is invalid")
    check_ordering(config)


def put_reading(
    details: FunctionDetails, config: JsonConfig, specs: Mapping[str, JsonConfig]
) -> None:
    """Set the parts of a function's details that say what it reads, and how."""
    source = details.source
    for topic, spec in specs.items():
        source.inputSpecs[topic].CopyFrom(consumer_spec(spec))
    if config.get("retainOrdering") or config.get("processingGuarantees") == "EFFECTIVELY_ONCE":
        source.subscriptionType = SubscriptionType.FAILOVER
    elif config.get("retainKeyOrdering"):
        source.subscriptionType = SubscriptionType.KEY_SHARED
    name = config.get("subName") or config.get("sourceSubscriptionName") or ""
    source.subscriptionName = name.strip()
    start = config.get("subscriptionPosition") or config.get("sourceSubscriptionPosition")
    source.subscriptionPosition = (
        SubscriptionPosition.EARLIEST if start == "Earliest" else SubscriptionPosition.LATEST
    )
    source.cleanupSubscription = config.get("cleanupSubscription", True)
    source.timeoutMs = config.get("timeoutMs", 0)
    source.negativeAckRedeliveryDelayMs = config.get(
        "negativeAckRedeliveryDelayMs", source.timeoutMs
    )
    details.retainOrdering = config.get("retainOrdering", False)
    details.retainKeyOrdering = config.get("retainKeyOrdering", False)
    details.autoAck = config.get("autoAck", True)
    if config.get("maxMessageRetries", -1) >= 0:
        details.retryDetails.maxMessageRetries = config["maxMessageRetries"]
        if dead_letters := config.get("deadLetterTopic"):
            details.retryDetails.deadLetterTopic = full_topic(dead_letters, "%s")


def reading_config(details: FunctionDetails) -> JsonConfig:
    """Return the fields of a config that say what a function reads, as ``put_reading`` took them."""
    source = details.source
    config: JsonConfig = {
        "inputSpecs": {topic: consumer_json(spec) for topic, spec in source.inputSpecs.items()},
        "retainOrdering": details.retainOrdering,
        "retainKeyOrdering": details.retainKeyOrdering,
        "autoAck": details.autoAck,
        "cleanupSubscription": source.cleanupSubscription,
    }
    if source.timeoutMs:
        config["timeoutMs"] = source.timeoutMs
    if details.HasField("retryDetails"):
        config["maxMessageRetries"] = details.retryDetails.maxMessageRetries
        if details.retryDetails.deadLetterTopic:
            config["deadLetterTopic"] = details.retryDetails.deadLetterTopic
    return config


def position_of(source: SourceSpec) -> str:
    return "Earliest" if source.subscriptionPosition == SubscriptionPosition.EARLIEST else "Latest"


def consumer_spec(spec: JsonConfig) -> ConsumerSpec:
    """Return the record of a ConsumerConfig."""
    record = ConsumerSpec(
        schemaType=spec.get("schemaType", ""),
        serdeClassName=spec.get("serdeClassName", ""),
        isRegexPattern=spec.get("regexPattern", spec.get("isRegexPattern", False)),
        schemaProperties=spec.get("schemaProperties"),
        consumerProperties=spec.get("consumerProperties"),
        poolMessages=spec.get("poolMessages", False),
    )
    if "receiverQueueSize" in spec:
        record.receiverQueueSize.value = spec["receiverQueueSize"]
    if "cryptoConfig" in spec:
        record.cryptoSpec.CopyFrom(_crypto_spec(spec["cryptoConfig"]))
    return record


def consumer_json(spec: ConsumerSpec) -> JsonConfig:
    """Return the ConsumerConfig of a record, with the fields that Apache's workers show."""
    config: JsonConfig = {
        "schemaType": spec.schemaType,
        "serdeClassName": spec.serdeClassName,
    }
    config = {name: value for name, value in config.items() if value}
    config |= {
        "schemaProperties": dict(spec.schemaProperties),
        "consumerProperties": dict(spec.consumerProperties),
        "regexPattern": spec.isRegexPattern,
        "poolMessages": spec.poolMessages,
    }
    if spec.HasField("receiverQueueSize"):
        config["receiverQueueSize"] = spec.receiverQueueSize.value
    if spec.HasField("cryptoSpec"):
        config["cryptoConfig"] = _crypto_json(spec.cryptoSpec)
    return config


# What is published


def put_publishing(sink: SinkSpec, config: JsonConfig) -> None:
    """Set how a function publishes; LZ4 unless the config says otherwise."""
    producer = config.get("producerConfig", {})
    check_crypto(producer.get("cryptoConfig"), publishes=True)
    spec = ProducerSpec(
        maxPendingMessages=producer.get("maxPendingMessages", 0),
        maxPendingMessagesAcrossPartitions=producer.get("maxPendingMessagesAcrossPartitions", 0),
        useThreadLocalProducers=producer.get("useThreadLocalProducers", False),
        batchBuilder=config.get("batchBuilder") or producer.get("batchBuilder", ""),
        compressionType=producer.get("compressionType", "LZ4"),
    )
    if "cryptoConfig" in producer:
        spec.cryptoSpec.CopyFrom(_crypto_spec(producer["cryptoConfig"]))
    if "batchingConfig" in producer:
        spec.batchingSpec.CopyFrom(BatchingSpec(**{"enabled": True} | producer["batchingConfig"]))
    sink.producerSpec.CopyFrom(spec)


def producer_json(spec: ProducerSpec) -> JsonConfig:
    """Return the ProducerConfig of a record."""
    config: JsonConfig = {
        "maxPendingMessages": spec.maxPendingMessages,
        "maxPendingMessagesAcrossPartitions": spec.maxPendingMessagesAcrossPartitions,
    }
    config = {name: value for name, value in config.items() if value}
    config |= {
        "useThreadLocalProducers": spec.useThreadLocalProducers,
        "batchBuilder": spec.batchBuilder,
        "compressionType": CompressionType.Name(spec.compressionType),
    }
    if spec.HasField("cryptoSpec"):
        config["cryptoConfig"] = _crypto_json(spec.cryptoSpec)
    if spec.HasField("batchingSpec"):
        members = ((field.name, value) for field, value in spec.batchingSpec.ListFields())
        config["batchingConfig"] = {"enabled": spec.batchingSpec.enabled} | dict(members)
    return config


def _crypto_spec(crypto: JsonConfig) -> CryptoSpec:
    return CryptoSpec(
        cryptoKeyReaderClassName=crypto.get("cryptoKeyReaderClassName", ""),
        cryptoKeyReaderConfig=compact(crypto.get("cryptoKeyReaderConfig", {})),
        producerEncryptionKeyName=crypto.get("encryptionKeys", []),
        producerCryptoFailureAction=crypto.get("producerCryptoFailureAction", "FAIL"),
        consumerCryptoFailureAction=crypto.get("consumerCryptoFailureAction", "FAIL"),
    )


def _crypto_json(spec: CryptoSpec) -> JsonConfig:
    name = CryptoSpec.FailureAction.Name
    return {
        "cryptoKeyReaderClassName": spec.cryptoKeyReaderClassName,
        "cryptoKeyReaderConfig": json.loads(spec.cryptoKeyReaderConfig or "{}"),
        "encryptionKeys": list(spec.producerEncryptionKeyName),
        "producerCryptoFailureAction": name(spec.producerCryptoFailureAction),
        "consumerCryptoFailureAction": name(spec.consumerCryptoFailureAction),
    }


# The rest


def put_common(details: FunctionDetails, config: JsonConfig) -> None:
    """Set what all functions, sinks and sources have."""
    details.MergeFrom(
        FunctionDetails(
            tenant=config["tenant"],
            namespace=config["namespace"],
            name=config["name"],
            runtime=config.get("runtime", "PYTHON"),
            processingGuarantees=config.get("processingGuarantees", "ATLEAST_ONCE"),
        )
    )
    details.parallelism = config.get("parallelism", 1)
    details.resources.CopyFrom(Resources(**DEFAULT_RESOURCES | config.get("resources", {})))
    if log_topic := config.get("logTopic"):
        details.logTopic = full_topic(log_topic, "LogTopic topic %s is invalid")
    if secrets := config.get("secrets"):
        details.secretsMap = compact(secrets)
    details.runtimeFlags = config.get("runtimeFlags", "")
    details.customRuntimeOptions = config.get("customRuntimeOptions", "")


def common_config(details: FunctionDetails) -> JsonConfig:
    """Return the fields of a config that ``put_common`` took."""
    return {
        "tenant": details.tenant,
        "namespace": details.namespace,
        "name": details.name,
        "processingGuarantees": ProcessingGuarantees.Name(details.processingGuarantees),
        "parallelism": details.parallelism,
        "resources": {
            "cpu": details.resources.cpu,
            "ram": details.resources.ram,
            "disk": details.resources.disk,
        },
        **dict(_texts(details)),
    }


def _texts(details: FunctionDetails) -> Iterator[tuple[str, Any]]:
    for field in ("logTopic", "runtimeFlags", "customRuntimeOptions"):
        if value := getattr(details, field):
            yield field, value
    if details.secretsMap:
        yield "secrets", json.loads(details.secretsMap)
