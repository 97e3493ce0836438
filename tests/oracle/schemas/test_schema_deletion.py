"""What is left of a topic's schemas after they were deleted, with the topic and without, and where ours differs from
Apache's on purpose (docs/decisions/0019)."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.oracle.conftest import Side
from tests.oracle.schemas.script import (
    INT32,
    STRING,
    Given,
    Told,
    beside,
    native,
    pair,
    record,
)

A = record(("a", "int"))
A_B = record(("a", "int"), ("b", "int", 0))
A_TEXT = record(("a", "string"))
ZERO = (0).to_bytes(8)


def left(told: Told, topic: str) -> None:
    """What REST says of a topic's schemas."""
    for what in ("schema", "schema/0", "schema/1", "schemas", "metadata"):
        told.schemas("GET", topic, what)


@pytest.mark.timeout(300)
def test_after_a_deletion_any_schema_is_the_next_version(sides: tuple[Side, Side]) -> None:
    def play(told: Told) -> None:
        told.produce("t", A)
        told.leave()
        told.schemas("DELETE", "t", "schema")
        left(told, "t")
        told.verdict("t", STRING)
        told.schemas("POST", "t", "version", A)
        told.subscribe("t", STRING)
        told.produce("t", STRING)
        told.leave()
        told.get("t")
        told.subscribe("t", A)
        told.produce("t", A)
        left(told, "t")
        for one in (A, STRING):
            told.schemas("POST", "t", "version", one)
        told.leave()
        told.schemas("DELETE", "t", "schema?force=true")
        left(told, "t")
        told.get("t")
        told.produce("t", A_TEXT)
        told.get("t")
        told.leave()
        told.schemas("DELETE", "t", "schema")
        told.schemas("DELETE", "t", "schema?force=true")
        told.produce("t", A_TEXT)
        told.leave()

    beside(sides, "deleted", play)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("query", ["", "?deleteSchema=true", "?deleteSchema=false", "?force=true"])
def test_schemas_go_with_their_topic(sides: tuple[Side, Side], query: str) -> None:
    def play(told: Told) -> None:
        told.produce("t", A)
        if "force" not in query:
            told.leave()
        told.rest("DELETE", f"persistent/{told.namespace}/t{query}")
        told.get("t")
        left(told, "t")
        if "force" not in query:
            told.produce("t", STRING)
            told.leave()

    beside(sides, f"topic-{query.strip('?').replace('=', '-').lower()}", play)


@pytest.mark.timeout(300)
def test_partitions_share_their_topics_schemas(sides: tuple[Side, Side]) -> None:
    def play(told: Told) -> None:
        told.rest("PUT", f"persistent/{told.namespace}/p/partitions", 3)
        told.produce("p-partition-1", A)
        told.produce("p-partition-2", A_B)
        told.subscribe("p-partition-0", A_TEXT)
        for topic in ("p", "p-partition-0"):
            told.get(topic)
            left(told, topic)
        told.schemas("POST", "p-partition-1", "version", A_B)
        told.verdict("p-partition-0", STRING)
        told.leave()
        told.rest("DELETE", f"persistent/{told.namespace}/p-partition-1")
        told.get("p")
        told.rest("DELETE", f"persistent/{told.namespace}/p/partitions")
        told.get("p")
        left(told, "p")

    beside(sides, "parted", play)


# --- where ours is another -----------------------------------------------------------------------


@pytest.fixture
def two(sides: tuple[Side, Side], request: pytest.FixtureRequest) -> Iterator[tuple[Told, Told]]:
    """(Apache's, ours) in a namespace of the test's own."""
    namespace = re.sub(r"\W", "-", request.node.name)
    theirs, ours = (Told(side, f"schemas/{namespace}") for side in sides)
    yield theirs, ours
    theirs.close()
    ours.close()


@pytest.mark.timeout(300)
def test_versions_from_before_a_deletion_stay_readable(two: tuple[Told, Told]) -> None:
    for one in two:
        one.produce("t", A)
        one.leave()
        one.schemas("DELETE", "t", "schema")
    theirs, ours = two
    assert theirs.get("t", ZERO)[3] == "TopicNotFound"
    assert ours.get("t", ZERO)[4]["type"] == "Avro"
    assert theirs.get("t")[4]["type"] == "None_"
    assert ours.get("t")[3] == "TopicNotFound"
    assert theirs.schemas("DELETE", "t", "schema")[-1] == {"version": 2}
    assert ours.schemas("DELETE", "t", "schema")[-1] == {"version": 1}


@pytest.mark.timeout(300)
def test_a_verdict_against_a_candidate_is_an_answer(two: tuple[Told, Told]) -> None:
    theirs, ours = two
    statuses = []
    for one in (theirs, ours):
        one.register("t", A)
        path = f"/admin/v2/schemas/{one.namespace}/t/compatibility"
        statuses.append(one.side.call("POST", path, A_TEXT.payload))
    assert statuses[0][0] == 500
    status, raw = statuses[1]
    assert status == 202
    said = json.loads(raw)
    assert said["compatibility"] is False
    assert "field a: int cannot be read as string" in said["reason"]


@pytest.mark.timeout(300)
def test_a_pair_with_a_part_of_another_kind_is_another_schema(two: tuple[Told, Told]) -> None:
    theirs, ours = two
    first, second = pair(STRING, STRING), pair(STRING, INT32)
    for one in two:
        one.strategy("FULL_TRANSITIVE")
        one.produce("t", first)
        assert one.verdict("t", second)[3] is False
    assert theirs.create("t", second)[-1] == "00" * 8
    assert ours.create("t", second)[-1] == "IncompatibleSchema"


@pytest.mark.timeout(300)
def test_a_pair_spelled_with_other_blanks_is_the_same_version(two: tuple[Told, Told]) -> None:
    theirs, ours = two
    spaced = A._replace(data=json.dumps(json.loads(A.data), indent=1).encode())
    for one in two:
        one.produce("t", pair(A, STRING))
    assert theirs.create("t", pair(spaced, STRING))[-1] == "00" * 7 + "01"
    assert ours.create("t", pair(spaced, STRING))[-1] == "00" * 8


SAME: dict[str, Given] = {
    "avro": A,
    "string": STRING,
    "pair": pair(STRING, STRING),
    "native": native("M", ("a", "int32")),
}


@pytest.mark.timeout(300)
def test_who_reads_by_the_topics_own_schema_may_where_no_other_may_follow(
    two: tuple[Told, Told],
) -> None:
    theirs, ours = two
    for one in two:
        one.strategy("ALWAYS_INCOMPATIBLE")
    for topic, schema in SAME.items():
        for one in two:
            one.produce(topic, schema)
        assert theirs.subscribe(topic, schema)[-1] == "IncompatibleSchema"
        assert ours.subscribe(topic, schema)[-1] == "ok"
        assert ours.subscribe(topic, A_B)[-1] == "IncompatibleSchema"


@pytest.mark.timeout(300)
def test_a_version_of_three_bytes_is_refused_and_the_connection_stays(
    two: tuple[Told, Told],
) -> None:
    theirs, ours = two
    with pytest.raises(AssertionError, match="closed the connection"):
        theirs.get("t", b"abc")
    assert ours.get("t", b"abc")[3] == "IncompatibleSchema"
    assert ours.get("t")[3] == "TopicNotFound"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "policy", ["schemaCompatibilityStrategy", "schemaAutoUpdateCompatibilityStrategy"]
)
def test_words_that_no_strategy_has_are_refused(two: tuple[Told, Told], policy: str) -> None:
    theirs, ours = two
    word = "BACKWARD" if policy == "schemaCompatibilityStrategy" else "Backward"
    path = f"namespaces/{ours.namespace}/{policy}"
    for one in two:
        one.policy(policy, word)
        one.policy(policy, "sideways")
    assert theirs.rest("GET", path)[-1] != word
    assert ours.rest("GET", path)[-1] == word
    assert ours.answers[-2][2] == 400
    assert "expected one of" in ours.texts[-2]
