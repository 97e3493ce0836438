"""The remains of a topic's schemas after their deletion, with the topic and without, and intended differences from
Apache's (docs/decisions/0019)."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.oracle.conftest import Side
from tests.oracle.schemas.script import (
    INT32,
    STRING,
    Given,
    Script,
    beside,
    native,
    pair,
    record,
)

A = record(("a", "int"))
A_B = record(("a", "int"), ("b", "int", 0))
A_TEXT = record(("a", "string"))
ZERO = (0).to_bytes(8)


def left(script: Script, topic: str) -> None:
    """Read a topic's schemas by REST in all ways."""
    for what in ("schema", "schema/0", "schema/1", "schemas", "metadata"):
        script.schemas("GET", topic, what)


@pytest.mark.timeout(300)
def test_after_a_deletion_any_schema_is_the_next_version(sides: tuple[Side, Side]) -> None:
    def play(script: Script) -> None:
        script.produce("t", A)
        script.leave()
        script.schemas("DELETE", "t", "schema")
        left(script, "t")
        script.verdict("t", STRING)
        script.schemas("POST", "t", "version", A)
        script.subscribe("t", STRING)
        script.produce("t", STRING)
        script.leave()
        script.get("t")
        script.subscribe("t", A)
        script.produce("t", A)
        left(script, "t")
        for schema in (A, STRING):
            script.schemas("POST", "t", "version", schema)
        script.leave()
        script.schemas("DELETE", "t", "schema?force=true")
        left(script, "t")
        script.get("t")
        script.produce("t", A_TEXT)
        script.get("t")
        script.leave()
        script.schemas("DELETE", "t", "schema")
        script.schemas("DELETE", "t", "schema?force=true")
        script.produce("t", A_TEXT)
        script.leave()

    beside(sides, "deleted", play)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("query", ["", "?deleteSchema=true", "?deleteSchema=false", "?force=true"])
def test_schemas_go_with_their_topic(sides: tuple[Side, Side], query: str) -> None:
    def play(script: Script) -> None:
        script.produce("t", A)
        if "force" not in query:
            script.leave()
        script.rest("DELETE", f"persistent/{script.namespace}/t{query}")
        script.get("t")
        left(script, "t")
        if "force" not in query:
            script.produce("t", STRING)
            script.leave()

    beside(sides, f"topic-{query.strip('?').replace('=', '-').lower()}", play)


@pytest.mark.timeout(300)
def test_partitions_share_their_topics_schemas(sides: tuple[Side, Side]) -> None:
    def play(script: Script) -> None:
        script.rest("PUT", f"persistent/{script.namespace}/p/partitions", 3)
        script.produce("p-partition-1", A)
        script.produce("p-partition-2", A_B)
        script.subscribe("p-partition-0", A_TEXT)
        for topic in ("p", "p-partition-0"):
            script.get(topic)
            left(script, topic)
        script.schemas("POST", "p-partition-1", "version", A_B)
        script.verdict("p-partition-0", STRING)
        script.leave()
        script.rest("DELETE", f"persistent/{script.namespace}/p-partition-1")
        script.get("p")
        script.rest("DELETE", f"persistent/{script.namespace}/p/partitions")
        script.get("p")
        left(script, "p")

    beside(sides, "parted", play)


# --- where ours is another -----------------------------------------------------------------------


@pytest.fixture
def two(
    sides: tuple[Side, Side], request: pytest.FixtureRequest
) -> Iterator[tuple[Script, Script]]:
    """(Apache's, ours) in a namespace of the test's own."""
    namespace = re.sub(r"\W", "-", request.node.name)
    theirs, ours = (Script(side, f"schemas/{namespace}") for side in sides)
    yield theirs, ours
    theirs.close()
    ours.close()


@pytest.mark.timeout(300)
def test_versions_from_before_a_deletion_stay_readable(two: tuple[Script, Script]) -> None:
    for script in two:
        script.produce("t", A)
        script.leave()
        script.schemas("DELETE", "t", "schema")
    theirs, ours = two
    assert theirs.get("t", ZERO)[3] == "TopicNotFound"
    assert ours.get("t", ZERO)[4]["type"] == "Avro"
    assert theirs.get("t")[4]["type"] == "None_"
    assert ours.get("t")[3] == "TopicNotFound"
    assert theirs.schemas("DELETE", "t", "schema")[-1] == {"version": 2}
    assert ours.schemas("DELETE", "t", "schema")[-1] == {"version": 1}


@pytest.mark.timeout(300)
def test_a_verdict_against_a_candidate_is_an_answer(two: tuple[Script, Script]) -> None:
    theirs, ours = two
    statuses = []
    for script in (theirs, ours):
        script.register("t", A)
        path = f"/admin/v2/schemas/{script.namespace}/t/compatibility"
        statuses.append(script.side.call("POST", path, A_TEXT.payload))
    assert statuses[0][0] == 500
    status, raw = statuses[1]
    assert status == 202
    verdict = json.loads(raw)
    assert verdict["compatibility"] is False
    assert "field a: int cannot be read as string" in verdict["reason"]


@pytest.mark.timeout(300)
def test_a_pair_with_a_part_of_another_kind_is_another_schema(two: tuple[Script, Script]) -> None:
    theirs, ours = two
    first, second = pair(STRING, STRING), pair(STRING, INT32)
    for script in two:
        script.strategy("FULL_TRANSITIVE")
        script.produce("t", first)
        assert script.verdict("t", second)[3] is False
    assert theirs.create("t", second)[-1] == "00" * 8
    assert ours.create("t", second)[-1] == "IncompatibleSchema"


@pytest.mark.timeout(300)
def test_a_pair_spelled_with_other_blanks_is_the_same_version(two: tuple[Script, Script]) -> None:
    theirs, ours = two
    spaced = A._replace(data=json.dumps(json.loads(A.data), indent=1).encode())
    for script in two:
        script.produce("t", pair(A, STRING))
    assert theirs.create("t", pair(spaced, STRING))[-1] == "00" * 7 + "01"
    assert ours.create("t", pair(spaced, STRING))[-1] == "00" * 8


SAME: dict[str, Given] = {
    "avro": A,
    "string": STRING,
    "pair": pair(STRING, STRING),
    "native": native("M", ("a", "int32")),
}


@pytest.mark.timeout(300)
def test_a_reader_with_the_topics_own_schema_is_accepted_where_no_other_is(
    two: tuple[Script, Script],
) -> None:
    theirs, ours = two
    for script in two:
        script.strategy("ALWAYS_INCOMPATIBLE")
    for topic, schema in SAME.items():
        for script in two:
            script.produce(topic, schema)
        assert theirs.subscribe(topic, schema)[-1] == "IncompatibleSchema"
        assert ours.subscribe(topic, schema)[-1] == "ok"
        assert ours.subscribe(topic, A_B)[-1] == "IncompatibleSchema"


@pytest.mark.timeout(300)
def test_a_version_of_three_bytes_is_refused_and_the_connection_stays(
    two: tuple[Script, Script],
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
def test_words_that_no_strategy_has_are_refused(two: tuple[Script, Script], policy: str) -> None:
    theirs, ours = two
    word = "BACKWARD" if policy == "schemaCompatibilityStrategy" else "Backward"
    path = f"namespaces/{ours.namespace}/{policy}"
    for script in two:
        script.policy(policy, word)
        script.policy(policy, "sideways")
    assert theirs.rest("GET", path)[-1] != word
    assert ours.rest("GET", path)[-1] == word
    assert ours.answers[-2][2] == 400
    assert "expected one of" in ours.texts[-2]
