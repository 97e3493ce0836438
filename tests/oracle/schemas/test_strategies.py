"""Which schema may follow which: every strategy, kinds against each other, and versions laid down before."""

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
    Told,
    beside,
    native,
    pair,
    record,
)

STRATEGIES = [one.value for one in Strategy if one is not Strategy.UNDEFINED]
JUDGED = [name for name in STRATEGIES if name != "ALWAYS_INCOMPATIBLE"]
"""Those of which a consumer with the topic's own schema hears the same from both: see test_deviations."""
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
    candidates = [one._replace(kind=kind) for one in CANDIDATES]

    def play(told: Told) -> None:
        told.strategy("ALWAYS_COMPATIBLE")  # none has a say about those that are there
        for strategy in STRATEGIES:
            for one in versions:
                told.register(strategy.lower(), one._replace(kind=kind))
        for strategy in STRATEGIES:
            topic = strategy.lower()
            told.strategy(strategy)
            for one in candidates:
                told.verdict(topic, one)
                if strategy in JUDGED:
                    told.subscribe(topic, one)
            for one in candidates[2:5]:
                told.create(topic, one)
            told.produce(topic, candidates[-1])
            told.schemas("GET", topic, "schemas")
            told.leave()

    beside(sides, f"history-{name}", play)


@pytest.mark.timeout(300)
def test_every_kind_after_every_other(sides: tuple[Side, Side]) -> None:
    def play(told: Told) -> None:
        told.strategy("BACKWARD")
        for topic, schema in KINDS.items():
            told.produce(topic, schema)
            told.schemas("GET", topic, "schema")
            for name, other in KINDS.items():
                told.verdict(topic, other)
                told.subscribe(topic, other, name)
                told.create(topic, other)
                told.produce(topic, other)
            told.schemas("GET", topic, "schemas")
            told.leave()
        told.strategy("ALWAYS_COMPATIBLE")
        told.rest("PUT", f"persistent/{told.namespace}/string/unload")  # a loaded one hears later
        for other in KINDS.values():
            told.produce("string", other)
        told.schemas("GET", "string", "schemas")

    beside(sides, "kinds", play)


@pytest.mark.timeout(300)
def test_primitives_are_registered_told_and_refused(sides: tuple[Side, Side]) -> None:
    def play(told: Told) -> None:
        for topic, schema in PRIMITIVES.items():
            told.register(topic, schema)
            told.get(topic)
            told.schemas("GET", topic, "schema")
            told.verdict(topic, INT32)
            told.register(topic, INT32)
            told.create(topic, STRING)
            for asked in (schema, STRING):
                told.schemas("POST", topic, "version", asked)

    beside(sides, "primitives", play)


@pytest.mark.timeout(300)
def test_what_clients_resolve_by_themselves_is_never_registered(sides: tuple[Side, Side]) -> None:
    def play(told: Told) -> None:
        for schema in (BYTES, AUTO_CONSUME):
            asks: list[Callable[[str, Given], object]] = [told.produce, told.subscribe, told.create]
            for ask in asks:
                topic = f"{ask.__name__}-{schema.kind}"
                told.make(topic)
                ask(topic, schema)
                told.get(topic)
                told.register(topic, schema)
            told.leave()

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
    def play(told: Told) -> None:
        for strategy in STRATEGIES:
            told.strategy(strategy)
            for number, first in enumerate(PAIRS):
                topic = f"{strategy.lower()}-{number}"
                told.produce(topic, first)
                told.schemas("GET", topic, "schema")
                for one in PAIRS:
                    told.verdict(topic, one)
                for one in PAIRS[number : number + 2]:
                    if strategy in JUDGED:
                        told.subscribe(topic, one)
                    told.create(topic, one)
                told.leave()

    beside(sides, "pairs", play)


@pytest.mark.timeout(300)
def test_native_protobuf_is_judged_by_its_root_message(sides: tuple[Side, Side]) -> None:
    schemas = (
        native("M", ("a", "int32")),
        native("M", ("a", "string")),
        native("N", ("a", "int32")),
        native("M", ("a", "int32"), file="g.proto"),
    )

    def play(told: Told) -> None:
        for strategy in STRATEGIES:
            told.strategy(strategy)
            for number, first in enumerate(schemas):
                topic = f"{strategy.lower()}-{number}"
                told.produce(topic, first)
                for one in schemas:
                    told.verdict(topic, one)
                    if strategy in JUDGED:
                        told.subscribe(topic, one)
                    told.create(topic, one)
                told.schemas("GET", topic, "schemas")
                told.leave()

    beside(sides, "native", play)
