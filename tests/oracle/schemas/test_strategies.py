"""Schemas that may follow others: every strategy, kinds against each other, and versions registered before."""

from collections.abc import Callable

import pytest

from engine.tenancy.strategy import Strategy
from engine.wire import pulsar_pb2 as pb
from tests.oracle.conftest import Side
from tests.oracle.schemas.script import (
    AUTO_CONSUME,
    BYTES,
    INT32,
    PRIMITIVES,
    STRING,
    Given,
    Script,
    beside,
    native,
    pair,
    record,
)

STRATEGIES = [strategy.value for strategy in Strategy if strategy is not Strategy.UNDEFINED]
JUDGED = [name for name in STRATEGIES if name != "ALWAYS_INCOMPATIBLE"]
"""Strategies with the same result on both sides for a consumer with the topic's own schema: see test_deviations."""
A = record(("a", "int"))
A_B = record(("a", "int"), ("b", "int", 0))
A_B_REQUIRED = record(("a", "int"), ("b", "int"))
A_TEXT = record(("a", "string"))
A_LONG = record(("a", "long"))
A_OR_NOT = record(("a", ["null", "int"], None))
B = record(("b", "int", 0))
CANDIDATES = (A, A_B, A_TEXT, A_B_REQUIRED, B, A_OR_NOT, A_LONG, record())
HISTORIES = {
    "grown": (pb.Schema.Avro, A, A_B, A_B_REQUIRED),
    "turned": (pb.Schema.Avro, A_TEXT, A, A_OR_NOT),
    "replaced": (pb.Schema.Json, A_LONG, A_B, B),
    "protobuf": (pb.Schema.Protobuf, A, A_B, A_B_REQUIRED),
}
KINDS = {
    "string": STRING,
    "int32": INT32,
    "avro": A,
    "json": A._replace(kind=pb.Schema.Json),
    "protobuf": A._replace(kind=pb.Schema.Protobuf),
    "pair": pair(STRING, INT32),
    "separated": pair(A, STRING, "SEPARATED"),
    "native": native("M", ("a", "int32")),
    "timestamp": PRIMITIVES["Timestamp"],
    "none": BYTES,
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", HISTORIES)
def test_candidates_are_judged_by_the_versions_that_the_strategy_looks_at(
    sides: tuple[Side, Side], name: str
) -> None:
    kind, *versions = HISTORIES[name]
    candidates = [candidate._replace(kind=kind) for candidate in CANDIDATES]

    def play(script: Script) -> None:
        script.strategy("ALWAYS_COMPATIBLE")  # none has a say about those that are there
        for strategy in STRATEGIES:
            for version in versions:
                script.register(strategy.lower(), version._replace(kind=kind))
        for strategy in STRATEGIES:
            topic = strategy.lower()
            script.strategy(strategy)
            for candidate in candidates:
                script.verdict(topic, candidate)
                if strategy in JUDGED:
                    script.subscribe(topic, candidate)
            for candidate in candidates[2:5]:
                script.create(topic, candidate)
            script.produce(topic, candidates[-1])
            script.schemas("GET", topic, "schemas")
            script.leave()

    beside(sides, f"history-{name}", play)


@pytest.mark.timeout(300)
def test_every_kind_after_every_other(sides: tuple[Side, Side]) -> None:
    def play(script: Script) -> None:
        script.strategy("BACKWARD")
        for topic, schema in KINDS.items():
            script.produce(topic, schema)
            script.schemas("GET", topic, "schema")
            for name, other in KINDS.items():
                script.verdict(topic, other)
                script.subscribe(topic, other, name)
                script.create(topic, other)
                script.produce(topic, other)
            script.schemas("GET", topic, "schemas")
            script.leave()
        script.strategy("ALWAYS_COMPATIBLE")
        # A loaded topic is notified of the change later.
        script.rest("PUT", f"persistent/{script.namespace}/string/unload")
        for other in KINDS.values():
            script.produce("string", other)
        script.schemas("GET", "string", "schemas")

    beside(sides, "kinds", play)


@pytest.mark.timeout(300)
def test_primitives_are_registered_returned_and_refused(sides: tuple[Side, Side]) -> None:
    def play(script: Script) -> None:
        for topic, schema in PRIMITIVES.items():
            script.register(topic, schema)
            script.get(topic)
            script.schemas("GET", topic, "schema")
            script.verdict(topic, INT32)
            script.register(topic, INT32)
            script.create(topic, STRING)
            for asked in (schema, STRING):
                script.schemas("POST", topic, "version", asked)

    beside(sides, "primitives", play)


@pytest.mark.timeout(300)
def test_schemas_that_clients_resolve_are_never_registered(sides: tuple[Side, Side]) -> None:
    def play(script: Script) -> None:
        for schema in (BYTES, AUTO_CONSUME):
            asks: list[Callable[[str, Given], object]] = [
                script.produce,
                script.subscribe,
                script.create,
            ]
            for ask in asks:
                topic = f"{ask.__name__}-{schema.kind}"
                script.make(topic)
                ask(topic, schema)
                script.get(topic)
                script.register(topic, schema)
            script.leave()

    beside(sides, "resolved", play)


PAIRS = (
    pair(A, STRING),
    pair(A_B, STRING),
    pair(A_TEXT, STRING, "SEPARATED"),
    pair(STRING, A),
    pair(A_LONG, A_B),
    pair(native("M", ("a", "int32")), STRING),
)


@pytest.mark.timeout(300)
def test_pairs_are_judged_by_both_parts(sides: tuple[Side, Side]) -> None:
    def play(script: Script) -> None:
        for strategy in STRATEGIES:
            script.strategy(strategy)
            for number, first in enumerate(PAIRS):
                topic = f"{strategy.lower()}-{number}"
                script.produce(topic, first)
                script.schemas("GET", topic, "schema")
                for second in PAIRS:
                    script.verdict(topic, second)
                for second in PAIRS[number : number + 2]:
                    if strategy in JUDGED:
                        script.subscribe(topic, second)
                    script.create(topic, second)
                script.leave()

    beside(sides, "pairs", play)


@pytest.mark.timeout(300)
def test_native_protobuf_is_judged_by_its_root_message(sides: tuple[Side, Side]) -> None:
    schemas = (
        native("M", ("a", "int32")),
        native("M", ("a", "string")),
        native("N", ("a", "int32")),
        native("M", ("a", "int32"), file="g.proto"),
    )

    def play(script: Script) -> None:
        for strategy in STRATEGIES:
            script.strategy(strategy)
            for number, first in enumerate(schemas):
                topic = f"{strategy.lower()}-{number}"
                script.produce(topic, first)
                for candidate in schemas:
                    script.verdict(topic, candidate)
                    if strategy in JUDGED:
                        script.subscribe(topic, candidate)
                    script.create(topic, candidate)
                script.schemas("GET", topic, "schemas")
                script.leave()

    beside(sides, "native", play)
