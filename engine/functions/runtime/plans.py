"""The plan of an instance, from Apache's records."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.functions.definitions.functions_pb2 import (
    CompressionType,
    ConsumerSpec,
    FunctionDetails,
    FunctionMetaData,
    ProcessingGuarantees,
    SubscriptionType,
)
from engine.functions.definitions.records import component_of, has_clear_token, role_of
from engine.functions.instance.instance_plan import (
    InputPlan,
    InstancePlan,
    OutputPlan,
    ProcessingGuarantee,
    WindowPlan,
)
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.ports import InstanceSpec

WINDOW = "__WINDOWCONFIGS__"
"""The name among the user's settings under which Apache's records keep windows."""


def plan_of(spec: InstanceSpec, code: Sequence[str]) -> InstancePlan:
    """Return what the instance does. ``code``: the folders of its unpacked package.

    Raises InstanceError for what cannot be run here.
    """
    metadata: FunctionMetaData = spec.function
    details = metadata.functionDetails
    _refuse(details)
    component = component_of(details)
    user_config = _object("userConfig", details.userConfig)
    window = user_config.pop(WINDOW, None)
    source, sink = details.source, details.sink
    connector: Any = {"source": source, "sink": sink}.get(component)
    guarantee = ProcessingGuarantee(ProcessingGuarantees.Name(details.processingGuarantees))
    if not details.autoAck and guarantee is ProcessingGuarantee.AT_LEAST_ONCE and window is None:
        guarantee = ProcessingGuarantee.MANUAL
    if window is not None:
        # The details say MANUAL, because windows acknowledge their messages.
        guarantee = ProcessingGuarantee(window.get("processingGuarantees") or "ATLEAST_ONCE")
    return InstancePlan(
        details.tenant,
        details.namespace,
        details.name,
        details.className if connector is None else connector.className,
        function_id=f"{details.tenant}/{details.namespace}/{details.name}",
        version=str(metadata.version),
        instance=spec.instance,
        parallelism=details.parallelism,
        component=component,
        builtin="" if connector is None else connector.builtin,
        code=code,
        guarantee=guarantee,
        retain_ordering=details.retainOrdering,
        retain_key_ordering=details.retainKeyOrdering,
        failover=source.subscriptionType == SubscriptionType.FAILOVER,
        key_shared=source.subscriptionType == SubscriptionType.KEY_SHARED,
        inputs=_inputs(details),
        subscription=source.subscriptionName,
        from_earliest=bool(source.subscriptionPosition),
        skip_to_latest=source.skipToLatest,
        timeout_ms=source.timeoutMs,
        nack_delay_ms=source.negativeAckRedeliveryDelayMs or 60_000,
        retries=details.retryDetails.maxMessageRetries
        if details.HasField("retryDetails")
        else None,
        dead_letter_topic=details.retryDetails.deadLetterTopic,
        output=_output(details),
        log_topic=details.logTopic,
        user_config=user_config,
        secrets=_object("secretsMap", details.secretsMap),
        secrets_provider=spec.secrets_provider,
        secrets_settings=spec.secrets_settings,
        window=None if window is None else _window(window),
        connector={} if connector is None else _object("configs", connector.configs),
        cpu=details.resources.cpu,
        own_user=spec.user is not None and spec.user.own,
        ram_bytes=details.resources.ram,
        disk_bytes=details.resources.disk,
        service_url=spec.service_url,
        token_file=str(spec.token_file or ""),
        role=role_of(spec.function),
        trust_certs_file=str(spec.trust_certs_file or ""),
        verify_hostname=spec.verify_hostname,
        cluster=spec.cluster,
        worker_id=spec.worker_id,
        folder=str(spec.folder),
        lease_end_s=None if spec.lease_end is None else spec.lease_end(),
    )


def with_token(spec: InstanceSpec) -> InstanceSpec:
    """Return a specification with the token that an Apache worker deployed in a file of its folder, which exists.

    Raises OSError.
    """
    metadata: FunctionMetaData = spec.function
    if spec.token_file is not None or not has_clear_token(metadata):
        return spec
    path = spec.folder.absolute() / "token"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(metadata.functionAuthSpec.data)
    return replace(spec, token_file=path)


def _refuse(details: FunctionDetails) -> None:
    """Raise InstanceError for what this runtime does not have."""
    if details.runtime != FunctionDetails.Runtime.PYTHON and component_of(details) == "function":
        name = FunctionDetails.Runtime.Name(details.runtime)
        raise InstanceError(f"functions of runtime {name} are not run here: only PYTHON ones")
    if details.sink.producerSpec.HasField("cryptoSpec"):
        raise InstanceError("cryptoConfig of the output is not supported")
    for topic, spec in details.source.inputSpecs.items():
        if spec.HasField("cryptoSpec"):
            raise InstanceError(f"cryptoConfig of input {topic} is not supported")
        if spec.HasField("messagePayloadProcessorSpec"):
            raise InstanceError(f"messagePayloadProcessorConfig of input {topic} is not supported")


def _object(field: str, text: str) -> dict[str, Any]:
    """Parse a JSON object; empty text is an empty one. Raises InstanceError."""
    if not text:
        return {}
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise InstanceError(f"{field} is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise InstanceError(f"{field} is no JSON object")
    return parsed


def _inputs(details: FunctionDetails) -> list[InputPlan]:
    source = details.source
    specs: dict[str, ConsumerSpec] = dict(source.inputSpecs.items())
    for topic, serde in source.topicsToSerDeClassName.items():
        specs.setdefault(topic, ConsumerSpec(serdeClassName=serde))
    if source.topicsPattern:
        specs.setdefault(source.topicsPattern, ConsumerSpec(isRegexPattern=True))
    return [
        InputPlan(
            _full(topic),
            spec.isRegexPattern,
            spec.schemaType,
            spec.serdeClassName,
            dict(spec.schemaProperties),
            source.typeClassName,
            spec.receiverQueueSize.value if spec.HasField("receiverQueueSize") else None,
        )
        for topic, spec in specs.items()
    ]


def _full(topic: str) -> str:
    """Return the full name of a topic or pattern, which Apache's clients complete so."""
    if "://" in topic:
        return topic
    return (
        f"persistent://{topic}" if topic.count("/") >= 2 else f"persistent://public/default/{topic}"
    )


def _output(details: FunctionDetails) -> OutputPlan:
    sink = details.sink
    spec = sink.producerSpec
    batching = spec.batchingSpec
    batched = spec.HasField("batchingSpec")
    return OutputPlan(
        _full(sink.topic) if sink.topic else "",
        sink.schemaType,
        sink.serDeClassName,
        dict(sink.schemaProperties),
        sink.typeClassName,
        sink.forwardSourceMessageProperty,
        CompressionType.Name(spec.compressionType),
        batching.enabled if batched else True,
        batching.batchingMaxPublishDelayMs or None,
        batching.batchingMaxMessages or 1000,
        spec.maxPendingMessages or 1000,
    )


def _window(config: Mapping[str, Any]) -> WindowPlan:
    """Return a window of Apache's WindowConfig."""
    return WindowPlan(
        config.get("windowLengthCount"),
        config.get("slidingIntervalCount"),
        config.get("windowLengthDurationMs"),
        config.get("slidingIntervalDurationMs"),
        config.get("timestampExtractorClassName") or "",
        config.get("lateDataTopic") or "",
        config.get("maxLagMs") or 0,
        config.get("watermarkEmitIntervalMs") or 1000,
    )
