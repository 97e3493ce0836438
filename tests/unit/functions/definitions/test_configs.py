"""Configs of functions, sinks and sources: Apache's texts, defaults, and what an update may change."""

from typing import Any

import pytest

from engine.base.errors import InvalidRequest
from engine.functions.definitions.configs import (
    Kind,
    config_of,
    details_of,
    merged,
    parse_config,
)
from engine.functions.definitions.functions_pb2 import (
    FunctionDetails,
    ProcessingGuarantees,
    SubscriptionType,
)
from engine.functions.definitions.records import encode

NAMES = {"tenant": "public", "namespace": "default", "name": "ex"}
IN, OUT = "persistent://public/default/in", "persistent://public/default/out"
FUNCTION = NAMES | {"className": "ex.Ex", "runtime": "PYTHON", "inputs": ["in"], "output": "out"}
SINK = NAMES | {"className": "ex.Sink", "inputs": ["in"]}
SOURCE = NAMES | {"className": "ex.Source", "topicName": "out"}
CONFIGS: dict[Kind, dict[str, Any]] = {"function": FUNCTION, "sink": SINK, "source": SOURCE}


def record(kind: Kind, **changes: Any) -> FunctionDetails:
    return details_of(kind, parse_config(kind, CONFIGS[kind] | changes))


def test_a_function_is_shown_with_apaches_defaults() -> None:
    assert config_of(record("function", logTopic="log", userConfig={"k": 1})) == {
        **NAMES,
        "className": "ex.Ex",
        "inputSpecs": {
            IN: {
                "schemaProperties": {},
                "consumerProperties": {},
                "poolMessages": False,
                "regexPattern": False,
            }
        },
        "output": OUT,
        "producerConfig": {
            "useThreadLocalProducers": False,
            "batchBuilder": "",
            "compressionType": "LZ4",
        },
        "logTopic": "persistent://public/default/log",
        "processingGuarantees": "ATLEAST_ONCE",
        "retainOrdering": False,
        "retainKeyOrdering": False,
        "forwardSourceMessageProperty": True,
        "userConfig": {"k": 1},
        "runtime": "PYTHON",
        "autoAck": True,
        "parallelism": 1,
        "resources": {"cpu": 1.0, "ram": 1073741824, "disk": 10737418240},
        "cleanupSubscription": True,
        "subscriptionPosition": "Latest",
    }


MUCH: dict[Kind, dict[str, Any]] = {
    "function": {
        "inputSpecs": {
            "p.*": {"regexPattern": True, "receiverQueueSize": 7, "poolMessages": True},
            "in": {
                "schemaType": "json",
                "consumerProperties": {"a": "b"},
                "cryptoConfig": {"cryptoKeyReaderClassName": "k.R", "encryptionKeys": ["x"]},
            },
        },
        "producerConfig": {"maxPendingMessages": 5, "batchingConfig": {"batchingMaxMessages": 3}},
        "secrets": {"s": {"path": "p"}},
        "retainKeyOrdering": True,
        "subName": "sub",
        "timeoutMs": 5_000,
        "maxMessageRetries": 3,
        "deadLetterTopic": "dead",
        "subscriptionPosition": "Earliest",
        "skipToLatest": True,
        "outputSchemaType": "json",
        "resources": {"cpu": 2},
    },
    "sink": {
        "topicToSchemaType": {"other": "string"},
        "configs": {"path": "/x"},
        "retainOrdering": True,
        "sourceSubscriptionName": "sub",
        "sourceSubscriptionPosition": "earliest",
        "negativeAckRedeliveryDelayMs": 10,
    },
    "source": {"configs": {"n": 1}, "schemaType": "json", "parallelism": 3, "className": ""},
}


@pytest.mark.parametrize("kind", MUCH)
def test_a_shown_config_is_stored_as_the_same_record(kind: Kind) -> None:
    stored = record(kind, **MUCH[kind])
    again = details_of(kind, parse_config(kind, config_of(stored)))
    assert encode(again) == encode(stored)


def test_a_window_is_stored_where_apaches_runtime_reads_it() -> None:
    window = {"windowLengthCount": 10, "slidingIntervalCount": 5}
    stored = record("function", windowConfig=window, processingGuarantees="ATMOST_ONCE")
    assert stored.processingGuarantees == ProcessingGuarantees.MANUAL
    assert '"__WINDOWCONFIGS__":{"windowLengthCount":10' in stored.userConfig
    assert not stored.autoAck
    shown = config_of(stored)
    assert shown["processingGuarantees"] == "ATMOST_ONCE"
    assert shown["userConfig"] == {}
    assert shown["windowConfig"] == window | {"actualWindowFunctionClassName": "ex.Ex"}
    assert encode(details_of("function", parse_config("function", shown))) == encode(stored)


def test_the_type_of_subscription_follows_order_and_guarantee() -> None:
    types = {
        SubscriptionType.SHARED: {},
        SubscriptionType.FAILOVER: {"processingGuarantees": "EFFECTIVELY_ONCE"},
        SubscriptionType.KEY_SHARED: {"retainKeyOrdering": True},
    }
    for kind, changes in types.items():
        assert record("function", **changes).source.subscriptionType == kind


def test_guarantees_of_other_languages_are_offered_to_python() -> None:
    record("function", processingGuarantees="EFFECTIVELY_ONCE")
    record("function", windowConfig={"windowLengthCount": 1})
    record("function", maxMessageRetries=2, deadLetterTopic="dead")


REFUSED: list[tuple[Kind, dict[str, Any], str]] = [
    ("function", {"tenant": None}, "Function tenant cannot be null"),
    ("function", {"className": None}, "Function classname cannot be null"),
    ("function", {"inputs": None}, "No input topic(s) specified for the function"),
    ("function", {"inputs": ["a://b"]}, "Input topic a://b is invalid"),
    ("function", {"output": "a://b"}, "Output topic a://b is invalid"),
    ("function", {"logTopic": "a://b"}, "LogTopic topic a://b is invalid"),
    (
        "function",
        {"output": IN},
        f"Output topic {IN} is also being used as an input topic (topics must be one or the other)",
    ),
    ("function", {"parallelism": 0}, "Function parallelism must be a positive number"),
    ("function", {"parallelism": 1001}, "parallelism: must be at most 1000"),
    ("function", {"parallelism": "2"}, "parallelism: must be a whole number"),
    (
        "function",
        {"outputSchemaType": "a", "outputSerdeClassName": "b"},
        "Only one of outputSchemaType or outputSerdeClassName should be set",
    ),
    (
        "function",
        {"inputSpecs": {"in": {"schemaType": "a", "serdeClassName": "b"}}},
        "Only one of schemaType or serdeClassName should be set in inputSpec",
    ),
    (
        "function",
        {"inputSpecs": {"in": {"receiverQueueSize": -1}}},
        "Receiver queue size should be >= zero",
    ),
    (
        "function",
        {"timeoutMs": 5, "processingGuarantees": "MANUAL"},
        "Message timeout can only be specified with processing guarantee is ATLEAST_ONCE",
    ),
    (
        "function",
        {"maxMessageRetries": 1, "processingGuarantees": "EFFECTIVELY_ONCE"},
        "MaxMessageRetries and Effectively once don't gel well",
    ),
    (
        "function",
        {"deadLetterTopic": "d"},
        "Dead Letter Topic specified, however max retries is set to infinity",
    ),
    (
        "function",
        {"retainKeyOrdering": True, "processingGuarantees": "EFFECTIVELY_ONCE"},
        "When effectively once processing guarantee is specified, retain Key ordering cannot be set",
    ),
    (
        "function",
        {"retainKeyOrdering": True, "retainOrdering": True},
        "Only one of retain ordering or retain key ordering can be set",
    ),
    (
        "function",
        {"autoAck": False, "processingGuarantees": "ATMOST_ONCE"},
        "When Guarantees == ATMOST_ONCE, autoAck must be equal to true",
    ),
    (
        "function",
        {"autoAck": True, "windowConfig": {"windowLengthCount": 1}},
        "Cannot enable auto ack when using windowing functionality",
    ),
    ("function", {"windowConfig": {}}, "Window length is not specified"),
    (
        "function",
        {"windowConfig": {"windowLengthCount": 1, "windowLengthDurationMs": 1}},
        "Window length for time and count are set! Please set one or the other.",
    ),
    (
        "function",
        {"windowConfig": {"windowLengthCount": 0}},
        "Window length must be positive [0]",
    ),
    (
        "function",
        {"windowConfig": {"windowLengthCount": 1}, "processingGuarantees": "EFFECTIVELY_ONCE"},
        "Windows Function not support EFFECTIVELY_ONCE delivery semantics.",
    ),
    ("function", {"resources": {"ram": 0}}, "The ram allocation for the function must be positive"),
    (
        "function",
        {"runtime": None},
        "Function language runtime is either not set or cannot be determined",
    ),
    ("function", {"className": "os; rm"}, "className: must be names of a module and a class"),
    ("function", {"name": "a/b"}, "name: must have at most 200 letters, digits and - = . _"),
    ("function", {"customSchemaInputs": {"t": "{"}}, "Incorrect custom schema inputs,Topic t"),
    ("sink", {"inputs": None}, "Must specify at least one topic of input via"),
    ("sink", {"timeoutMs": -1}, "Sink timeout must be a positive number"),
    ("sink", {"transformFunction": "x"}, "transformFunction: is not offered"),
    ("source", {"topicName": None}, "Topic name is invalid"),
    ("source", {"topicName": "a://b"}, "Topic name is invalid"),
    ("source", {"parallelism": -1}, "Source parallelism must be a positive number"),
    ("source", {"batchSourceConfig": {}}, "batchSourceConfig: batch sources are not offered"),
    (
        "source",
        {"serdeClassName": "a", "schemaType": "b"},
        "Only one of serdeClassName or schemaType should be set",
    ),
]


@pytest.mark.parametrize(("kind", "changes", "reason"), REFUSED)
def test_a_refusal_has_apaches_text(kind: Kind, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        record(kind, **changes)
    assert refused.value.reason.startswith(reason)


def test_a_config_without_anything_lacks_inputs_first() -> None:
    with pytest.raises(InvalidRequest, match="No input topic"):
        details_of("function", NAMES)


def test_unknown_fields_and_nulls_are_ignored() -> None:
    given = FUNCTION | {"fqfn": "x", "maxPendingAsyncRequests": 7, "subName": None}
    assert parse_config("function", given) == FUNCTION


@pytest.mark.parametrize("given", [None, [], "x"])
def test_another_json_value_is_no_config(given: object) -> None:
    with pytest.raises(InvalidRequest, match="Sink config is not provided"):
        parse_config("sink", given)


def test_the_name_of_the_file_says_the_language() -> None:
    config = parse_config("function", FUNCTION | {"runtime": None})
    assert details_of("function", config, "a.WHL").runtime == FunctionDetails.Runtime.PYTHON
    assert details_of("function", config, "a.jar").runtime == FunctionDetails.Runtime.JAVA


def test_a_user_cannot_plant_a_window_in_the_user_config() -> None:
    assert record("function", userConfig={"__WINDOWCONFIGS__": {}}).userConfig == ""


# Updates


def test_an_update_keeps_what_it_does_not_name() -> None:
    stored = config_of(record("function", **MUCH["function"]))
    update = parse_config(
        "function", {"parallelism": 4, "output": "other", "resources": {"ram": 5}}
    )
    result = merged("function", stored, update)
    assert result == stored | {
        "parallelism": 4,
        "output": "other",
        "resources": {"cpu": 2.0, "ram": 5, "disk": 10 << 30},
    }


def test_an_update_may_name_what_is_the_same() -> None:
    for kind, config in CONFIGS.items():
        stored = config_of(record(kind))
        result = merged(kind, stored, parse_config(kind, config))
        assert encode(details_of(kind, result)) == encode(record(kind))


def test_an_update_changes_how_an_input_is_read() -> None:
    stored = config_of(record("function"))
    result = merged("function", stored, {"inputSpecs": {"in": {"receiverQueueSize": 9}}})
    assert result["inputSpecs"][IN] == stored["inputSpecs"][IN] | {"receiverQueueSize": 9}


UNCHANGEABLE: list[tuple[Kind, dict[str, Any], str]] = [
    ("function", {"tenant": "other"}, "Tenants differ"),
    ("function", {"namespace": "other"}, "Namespaces differ"),
    ("function", {"name": "other"}, "Function Names differ"),
    ("sink", {"name": "other"}, "Sink Names differ"),
    ("function", {"outputSerdeClassName": "x"}, "Output Serde mismatch"),
    ("function", {"outputSchemaType": "x"}, "Output Schema mismatch"),
    ("function", {"processingGuarantees": "MANUAL"}, "Processing Guarantees cannot be altered"),
    ("function", {"retainOrdering": True}, "Retain Ordering cannot be altered"),
    ("function", {"retainKeyOrdering": True}, "Retain Key Ordering cannot be altered"),
    ("function", {"runtime": "GO"}, "Runtime cannot be altered"),
    ("function", {"autoAck": False}, "AutoAck cannot be altered"),
    ("function", {"subName": "x"}, "Subscription Name cannot be altered"),
    ("sink", {"sourceSubscriptionName": "x"}, "Subscription Name cannot be altered"),
    ("function", {"inputs": ["new"]}, "Input Topics cannot be altered"),
    ("sink", {"topicsPattern": "p.*"}, "Input Topics cannot be altered"),
    (
        "function",
        {"inputSpecs": {IN: {"regexPattern": True}}},
        f"isRegexPattern for input topic {IN} cannot be altered",
    ),
]


@pytest.mark.parametrize(("kind", "changes", "reason"), UNCHANGEABLE)
def test_an_update_of_what_is_fixed_is_refused(
    kind: Kind, changes: dict[str, Any], reason: str
) -> None:
    stored = config_of(record(kind))
    with pytest.raises(InvalidRequest) as refused:
        merged(kind, stored, parse_config(kind, changes))
    assert refused.value.reason == reason
