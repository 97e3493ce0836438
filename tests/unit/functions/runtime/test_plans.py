"""Plans of instances from Apache's records."""

import json
from pathlib import Path

import pytest

from engine.functions.definitions.functions_pb2 import (
    ConsumerSpec,
    FunctionDetails,
    FunctionMetaData,
    RetryDetails,
)
from engine.functions.definitions.records import CLEAR_TOKEN
from engine.functions.instance.instance_plan import InstancePlan, ProcessingGuarantee, WindowPlan
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.plans import WINDOW, plan_of, with_token
from engine.functions.runtime.ports import InstanceSpec


def details() -> FunctionDetails:
    made = FunctionDetails(
        tenant="t", namespace="n", name="f", className="m.C", runtime=1, autoAck=True, parallelism=2
    )
    made.sink.topic = "out"
    return made


def planned(made: FunctionDetails) -> InstancePlan:
    metadata = FunctionMetaData(functionDetails=made, version=4)
    return plan_of(InstanceSpec(metadata, 1, None, Path("/f"), "pulsar://b:1"), ["/f/code"])


def test_a_plan_survives_its_way_to_the_process() -> None:
    made = details()
    made.source.inputSpecs["persistent://t/n/in"].CopyFrom(ConsumerSpec(schemaType="string"))
    made.userConfig = json.dumps({"a": [1], WINDOW: {"windowLengthCount": 5, "maxLagMs": 7}})
    plan = planned(made)
    assert InstancePlan.from_json(plan.to_json()) == plan
    assert plan.window == WindowPlan(5, max_lag_ms=7)
    assert plan.user_config == {"a": [1]}


@pytest.mark.parametrize("guarantee", ["ATLEAST_ONCE", "ATMOST_ONCE"])
def test_windows_acknowledge_by_the_guarantee_of_their_config(guarantee: str) -> None:
    made = details()
    # As records of functions with windows are: the details themselves acknowledge nothing.
    made.autoAck = False
    made.processingGuarantees = 3  # type: ignore[assignment]  # MANUAL
    window = {"windowLengthCount": 5, "processingGuarantees": guarantee}
    made.userConfig = json.dumps({WINDOW: window})
    assert planned(made).guarantee == guarantee


def test_short_names_are_completed_and_the_defaults_are_apaches() -> None:
    plan = planned(details())
    assert plan.output.topic == "persistent://public/default/out"
    assert (plan.output.compression, plan.nack_delay_ms, plan.retries) == ("LZ4", 60_000, None)
    assert (plan.version, plan.instance, plan.full_name) == ("4", 1, "t/n/f")
    assert not plan.from_earliest


def test_all_forms_of_inputs_are_read() -> None:
    made = details()
    made.source.inputSpecs["persistent://t/n/a"].receiverQueueSize.value = 7
    made.source.topicsToSerDeClassName["persistent://t/n/b"] = "m.S"
    made.source.topicsPattern = "persistent://t/n/c.*"
    inputs = {spec.topic.rpartition("/")[2]: spec for spec in planned(made).inputs}
    assert (inputs["a"].queue_size, inputs["b"].serde, inputs["c.*"].pattern) == (7, "m.S", True)


def test_retries_of_zero_are_not_those_without_bound() -> None:
    made = details()
    made.retryDetails.CopyFrom(RetryDetails(maxMessageRetries=0, deadLetterTopic="dead"))
    assert planned(made).retries == 0


def test_no_automatic_acknowledgement_is_manual() -> None:
    made = details()
    made.autoAck = False
    assert planned(made).guarantee is ProcessingGuarantee.MANUAL


def test_a_built_in_sink_has_its_connector_and_settings() -> None:
    made = details()
    made.componentType = FunctionDetails.ComponentType.SINK
    made.sink.builtin, made.sink.configs = "files", '{"folder": "/x"}'
    plan = planned(made)
    assert (plan.component, plan.builtin, plan.connector) == ("sink", "files", {"folder": "/x"})


def refused(made: FunctionDetails) -> str:
    with pytest.raises(InstanceError) as error:
        planned(made)
    return str(error.value)


def test_the_error_names_a_setting_that_cannot_be_run() -> None:
    java, sealed, broken = details(), details(), details()
    java.runtime = FunctionDetails.Runtime.JAVA
    sealed.sink.producerSpec.cryptoSpec.cryptoKeyReaderClassName = "K"
    broken.userConfig = "{"
    assert "runtime JAVA are not run here" in refused(java)
    assert "cryptoConfig of the output" in refused(sealed)
    assert refused(broken).startswith("userConfig is no JSON")


@pytest.mark.parametrize("provider", [f"org.apache.pulsar.functions.auth.{CLEAR_TOKEN}", ""])
def test_the_token_of_the_deployment_is_a_file_that_only_the_instance_reads(
    tmp_path: Path, provider: str
) -> None:
    metadata = FunctionMetaData(functionDetails=details())
    metadata.functionAuthSpec.data = b"a.clear.token"
    metadata.functionAuthSpec.provider = provider
    spec = with_token(InstanceSpec(metadata, 0, None, tmp_path, "pulsar://b:1"))
    assert spec.token_file is not None
    assert spec.token_file.read_bytes() == b"a.clear.token"
    assert spec.token_file.stat().st_mode & 0o777 == 0o600
    assert plan_of(spec, []).token_file == str(tmp_path / "token")


def test_a_role_is_not_used_as_a_token(tmp_path: Path) -> None:
    metadata = FunctionMetaData(functionDetails=details())
    metadata.functionAuthSpec.data = b"a-role"
    metadata.functionAuthSpec.provider = "magnetar.role"
    spec = InstanceSpec(metadata, 0, None, tmp_path, "pulsar://b:1")
    assert with_token(spec) is spec
