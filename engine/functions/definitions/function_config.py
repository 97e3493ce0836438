"""FunctionConfig: a function as Pulsar's REST interface has it, and its record FunctionDetails."""

import json
from typing import Any

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
    check_reading,
    check_specs,
    common_config,
    compact,
    consumer_config,
    input_specs,
    position_of,
    producer_json,
    put_common,
    put_publishing,
    put_reading,
    reading_config,
)
from engine.functions.definitions.functions_pb2 import FunctionDetails, ProcessingGuarantees

WINDOW_KEY = "__WINDOWCONFIGS__"
"""Member of the stored user config that is the WindowConfig. It has the function's class and its processing guarantee;
that of the details is MANUAL then, because the window acknowledges."""
AT_MOST_ONCE_ACKNOWLEDGES = (
    "When Guarantees == ATMOST_ONCE, autoAck must be equal to true. This is a contradictory configuration, autoAck "
    "will be removed later. Please refer to PIP: https://github.com/apache/pulsar/issues/15560"
)
INPUT_FIELDS = {"customSerdeInputs": "serdeClassName", "customSchemaInputs": ""}
RUNTIMES = {".py": "PYTHON", ".whl": "PYTHON", ".zip": "PYTHON", ".jar": "JAVA", ".nar": "JAVA"}


def runtime_of(config: JsonConfig, file_name: str) -> str:
    """Return the language of a function: as stated, by the field that names its file, or by the file's name.

    Raises InvalidRequest where none of these says it.
    """
    if "runtime" in config:
        return str(config["runtime"])
    for field, runtime in (("py", "PYTHON"), ("jar", "JAVA"), ("go", "GO")):
        if config.get(field):
            return runtime
    for ending, runtime in RUNTIMES.items():
        if file_name.lower().endswith(ending):
            return runtime
    raise InvalidRequest("Function language runtime is either not set or cannot be determined")


def details_of(config: JsonConfig, file_name: str = "") -> FunctionDetails:
    """Return the record of a function's config.

    ``file_name``: that of the package. Raises InvalidRequest with Apache's texts; the order of the checks is Apache's.
    """
    specs = _checked_inputs(config)
    window = config.get("windowConfig")
    _check_outputs(config, specs)
    check_parallelism(config, "Function")
    check_resources(config)
    if window is not None and config.get("autoAck"):
        raise InvalidRequest("Cannot enable auto ack when using windowing functionality")
    check_reading(config, "Function")
    check_specs(specs, "Only one of schemaType or serdeClassName should be set in inputSpec")
    guarantee = config.get("processingGuarantees", "ATLEAST_ONCE")
    if window is None and guarantee == "ATMOST_ONCE" and config.get("autoAck") is False:
        raise InvalidRequest(AT_MOST_ONCE_ACKNOWLEDGES)
    details = FunctionDetails(componentType=FunctionDetails.ComponentType.FUNCTION)
    put_common(details, config | {"runtime": runtime_of(config, file_name)})
    put_reading(details, config, specs)
    _put_ends(details, config)
    details.className = config.get("className", "")
    details.builtin = builtin_of(config.get("functionType") or config.get("py") or "")
    user_config = dict(config.get("userConfig", {}))
    user_config.pop(WINDOW_KEY, None)  # only windowConfig sets it
    if window is not None:
        user_config[WINDOW_KEY] = _window(window, details.className, guarantee)
        details.processingGuarantees = ProcessingGuarantees.MANUAL
        details.autoAck = False
    if user_config:
        details.userConfig = compact(user_config)
    return details


def _checked_inputs(config: JsonConfig) -> dict[str, JsonConfig]:
    """Return the ConsumerConfig of each input. Raises InvalidRequest."""
    check_name(config, "Function")
    if config.get("runtime") == "PYTHON" and not config.get("className"):
        raise InvalidRequest("Function classname cannot be null")
    specs = input_specs(config, by_topic=INPUT_FIELDS)
    if not specs:
        raise InvalidRequest("No input topic(s) specified for the function")
    return specs


def _check_outputs(config: JsonConfig, specs: dict[str, JsonConfig]) -> None:
    """Raise InvalidRequest for topics that cannot be published to."""
    output = config.get("output", "")
    if output and full_topic(output, "Output topic %s is invalid") in specs:
        raise InvalidRequest(
            f"Output topic {output} is also being used as an input topic (topics must be one or the other)"
        )
    if config.get("outputSchemaType") and config.get("outputSerdeClassName"):
        raise InvalidRequest("Only one of outputSchemaType or outputSerdeClassName should be set")


def _put_ends(details: FunctionDetails, config: JsonConfig) -> None:
    source, sink = details.source, details.sink
    source.skipToLatest = config.get("skipToLatest", False)
    source.typeClassName = config.get("inputTypeClassName", "")
    output = config.get("output", "")
    sink.topic = full_topic(output, "%s") if output else ""
    sink.serDeClassName = config.get("outputSerdeClassName", "").strip()
    sink.schemaType = config.get("outputSchemaType", "").strip()
    sink.typeClassName = config.get("outputTypeClassName", "")
    sink.forwardSourceMessageProperty = config.get("forwardSourceMessageProperty", True)
    if custom := config.get("customSchemaOutputs", {}).get(output):
        try:
            schema = consumer_config(output, custom)
        except InvalidRequest as error:
            raise InvalidRequest(f"Incorrect custom schema outputs,Topic {output}") from error
        sink.schemaType = schema.get("schemaType", sink.schemaType)
        sink.schemaProperties.update(schema.get("schemaProperties", {}))
        sink.consumerProperties.update(schema.get("consumerProperties", {}))
    put_publishing(sink, config)


def _window(window: JsonConfig, class_name: str, guarantee: str) -> JsonConfig:
    """Return the stored WindowConfig. Raises InvalidRequest with Apache's texts."""
    if guarantee in ("EFFECTIVELY_ONCE", "MANUAL"):
        raise InvalidRequest(f"Windows Function not support {guarantee} delivery semantics.")
    by_count, by_time = window.get("windowLengthCount"), window.get("windowLengthDurationMs")
    if by_count is None and by_time is None:
        raise InvalidRequest("Window length is not specified")
    if by_count is not None and by_time is not None:
        raise InvalidRequest(
            "Window length for time and count are set! Please set one or the other."
        )
    for field, what in (
        ("windowLengthCount", "Window length"),
        ("windowLengthDurationMs", "Window length"),
        ("slidingIntervalCount", "Sliding interval"),
        ("slidingIntervalDurationMs", "Sliding interval"),
        ("watermarkEmitIntervalMs", "Watermark interval"),
    ):
        if window.get(field, 1) <= 0:
            raise InvalidRequest(f"{what} must be positive [{window[field]}]")
    if window.get("maxLagMs", 0) < 0:
        raise InvalidRequest(f"Lag duration must be positive [{window['maxLagMs']}]")
    stored = dict(window)
    if late := window.get("lateDataTopic"):
        stored["lateDataTopic"] = full_topic(late, "Late data topic %s is invalid")
    if by_count is not None:  # without a distance windows follow each other
        stored.setdefault("slidingIntervalCount", by_count)
    else:
        stored.setdefault("slidingIntervalDurationMs", by_time)
    return stored | {
        "actualWindowFunctionClassName": class_name,
        "processingGuarantees": guarantee,
    }


def user_config_of(details: FunctionDetails) -> dict[str, Any]:
    """Return the stored user config, with the WindowConfig of a function that has windows."""
    stored: dict[str, Any] = json.loads(details.userConfig or "{}")
    return stored


def config_of(details: FunctionDetails) -> JsonConfig:
    """Return the config of a stored function, as Apache's workers show it."""
    source, sink, user_config = details.source, details.sink, user_config_of(details)
    config = common_config(details) | reading_config(details)
    config |= {
        "className": details.className,
        "forwardSourceMessageProperty": sink.forwardSourceMessageProperty,
        "runtime": FunctionDetails.Runtime.Name(details.runtime),
        "subscriptionPosition": position_of(source),
        "producerConfig": producer_json(sink.producerSpec),
    }
    window = user_config.pop(WINDOW_KEY, None)
    if window is not None:
        config["processingGuarantees"] = window.pop("processingGuarantees", "ATLEAST_ONCE")
        config["className"] = window.get("actualWindowFunctionClassName", details.className)
        config["windowConfig"] = window
    config["userConfig"] = user_config
    texts = {
        "subName": source.subscriptionName,
        "inputTypeClassName": source.typeClassName,
        "output": sink.topic,
        "outputSerdeClassName": sink.serDeClassName,
        "outputSchemaType": sink.schemaType,
        "outputTypeClassName": sink.typeClassName,
        "functionType": f"builtin://{details.builtin}" if details.builtin else "",
    }
    config |= {field: value for field, value in texts.items() if value}
    if source.skipToLatest:
        config["skipToLatest"] = True
    return config
