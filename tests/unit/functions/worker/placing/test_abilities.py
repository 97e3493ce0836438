"""A function is for the kinds of workers that can run it."""

import pytest

from engine.functions.definitions import functions_pb2 as pb
from engine.functions.worker.placing.abilities import Abilities, abilities_for
from engine.functions.worker.running.function_tokens import with_role
from tests.support.functions.several_workers import details

BOTH, OURS, APACHES = Abilities(True, True), Abilities(True, False), Abilities(False, True)
PACKAGE = "function://public/default/f@0"


def stored(path: str = PACKAGE, **fields: object) -> pb.FunctionMetaData:
    made = pb.FunctionMetaData(functionDetails=details("f"))
    made.packageLocation.packagePath = path
    for name, value in fields.items():
        setattr(made.functionDetails, name, value)
    return made


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (stored(), BOTH),
        (stored("builtin://x"), OURS),
        (stored("public/default/f/1-f.py"), APACHES),
        (stored("https://example.org/f.py"), APACHES),
        (stored(runtime=pb.FunctionDetails.JAVA), APACHES),
        (stored(runtime=pb.FunctionDetails.GO), APACHES),
        (stored("sink://public/default/f@0", componentType=pb.FunctionDetails.SINK), OURS),
        (stored(processingGuarantees=pb.EFFECTIVELY_ONCE), OURS),
        (stored(userConfig='{"__WINDOWCONFIGS__": {}}'), OURS),
        (stored(userConfig="no JSON"), BOTH),
    ],
)
def test_a_function_is_for_the_workers_that_can_run_it(
    metadata: pb.FunctionMetaData, expected: Abilities
) -> None:
    assert abilities_for(metadata) == expected


def test_retries_are_for_our_workers() -> None:
    metadata = stored()
    metadata.functionDetails.retryDetails.maxMessageRetries = 3
    assert abilities_for(metadata) == OURS


def test_a_function_with_a_role_is_for_our_workers_and_one_with_a_token_for_both() -> None:
    metadata = stored()
    with_role(metadata, "ann")
    assert abilities_for(metadata) == OURS
    metadata.functionAuthSpec.provider = "org.apache.ClearTextFunctionTokenAuthProvider"
    assert abilities_for(metadata) == BOTH
