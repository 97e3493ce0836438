"""Schemas of a foreign topic: versions, checks, and changes only behind the version that was seen."""

import json
from typing import Any

import pytest

from admin_ui.schemas import selectors
from engine.admin.api.schemas import GivenSchema
from engine.base.errors import Conflict, NotFound, Unprocessable
from engine.base.names import TopicName
from gateway.services.admin import schemas
from gateway.services.engine_link import EngineLink
from tests.support.net.recorded_apache import RecordedApache

TOPIC = TopicName.parse("persistent://acme/ns5/orders-0005")
BASE = "/admin/v2/schemas/acme/ns5/orders-0005"
OWN_STRATEGY = "/admin/v2/persistent/acme/ns5/orders-0005/schemaCompatibilityStrategy"
DEFINITION = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}'
CANDIDATE = GivenSchema(TOPIC, "AVRO", DEFINITION)


def version(number: int) -> dict[str, Any]:
    return {
        "version": number,
        "type": "AVRO",
        "timestamp": 1795257590926 + number,
        "data": DEFINITION,
        "properties": {},
    }


@pytest.fixture
def stored(apache: RecordedApache) -> RecordedApache:
    """Two versions of a schema, and no strategy of the topic itself."""
    apache.answers[f"{BASE}/schemas"] = {"getSchemaResponses": [version(0), version(1)]}
    apache.answers[f"{BASE}/schema/1"] = version(1)
    apache.answers[OWN_STRATEGY] = None
    return apache


def test_versions_are_listed_newest_first_with_the_strategy_in_force(
    link: EngineLink, stored: RecordedApache
) -> None:
    answer = link.run(lambda engine: selectors.versions(engine, TOPIC, {}))
    assert [row["version"] for row in answer["versions"]] == [1, 0]
    assert (answer["total"], answer["newest"]) == (2, 1)
    assert answer["versions"][0]["size"] == len(DEFINITION)
    assert answer["strategy"]["level"] in ("broker", "namespace")
    stored.answers[OWN_STRATEGY] = "BACKWARD"
    own = link.run(lambda engine: schemas.strategy(engine, TOPIC))
    assert own == ("BACKWARD", "topic")


def test_a_topic_without_a_schema_has_no_versions(link: EngineLink, apache: RecordedApache) -> None:
    apache.answers[f"{BASE}/schemas"] = {"getSchemaResponses": []}
    apache.answers[OWN_STRATEGY] = None
    answer = link.run(lambda engine: selectors.versions(engine, TOPIC, {}))
    assert (answer["total"], answer["newest"], answer["versions"]) == (0, -1, [])


def test_a_version_has_its_definition_and_a_missing_one_is_named(
    link: EngineLink, stored: RecordedApache
) -> None:
    answer = link.run(lambda engine: selectors.version(engine, TOPIC, "1"))
    assert json.loads(answer["definition"]) == json.loads(DEFINITION)
    with pytest.raises(NotFound, match="Apache does not return the schema version 9"):
        link.run(lambda engine: selectors.version(engine, TOPIC, "9"))


def test_a_candidate_is_judged_by_apache(link: EngineLink, stored: RecordedApache) -> None:
    stored.changed[f"{BASE}/version"] = {"version": -1}
    stored.changed[f"{BASE}/compatibility"] = {
        "compatibility": True,
        "schemaCompatibilityStrategy": "FULL",
    }
    verdict = link.run(lambda engine: selectors.verdict(engine, CANDIDATE))
    assert verdict["compatible"]
    assert (verdict["newest"], verdict["version"]) == (1, None)
    failure = (
        "\n --- An unexpected error occurred in the server ---\n\nMessage: Error during schema"
        " compatibility check with strategy FULL: not readable\n\nStacktrace:\n\njava.lang.X\n\tat y"
    )
    stored.refusals[f"{BASE}/compatibility"] = 500, failure
    verdict = link.run(lambda engine: selectors.verdict(engine, CANDIDATE))
    assert not verdict["compatible"]
    assert verdict["reason"] == (
        "Error during schema compatibility check with strategy FULL: not readable"
    )


def test_an_invalid_definition_is_refused_without_a_request(
    link: EngineLink, stored: RecordedApache
) -> None:
    invalid = GivenSchema(TOPIC, "AVRO", "{nonsense")
    with pytest.raises(Unprocessable):
        link.run(lambda engine: schemas.register(engine, invalid, expected=1))
    assert not stored.changes


def test_a_change_is_refused_when_another_version_is_the_newest(
    link: EngineLink, stored: RecordedApache
) -> None:
    with pytest.raises(Conflict, match="The newest version is 1, not 0"):
        link.run(lambda engine: schemas.register(engine, CANDIDATE, expected=0))
    with pytest.raises(Conflict, match="The newest version is 1, not 0"):
        link.run(lambda engine: schemas.delete(engine, TOPIC, expected=0))
    assert not stored.changes
    stored.changed[f"{BASE}/schema"] = {"version": {"version": 2}}
    assert link.run(lambda engine: schemas.register(engine, CANDIDATE, expected=1)) == 2
    assert link.run(lambda engine: schemas.delete(engine, TOPIC, expected=1)) == 2
    assert [(change.method, change.path) for change in stored.changes] == [
        ("POST", f"{BASE}/schema"),
        ("DELETE", f"{BASE}/schema"),
    ]
