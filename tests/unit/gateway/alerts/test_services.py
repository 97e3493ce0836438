"""The console's calls about alerts: what is stored, answered, refused and recorded, and who may see it."""

import json
from typing import Any

import pytest

from admin_ui.models import AuditEntry
from engine.base.errors import Conflict, InvalidField, NotFound
from gateway.alerts.models import AlertChannel, AlertDelivery, AlertFiring, AlertRule
from gateway.alerts.services import ROWS_PER_TENANT_MAX, Owned, acknowledge, make_silence
from gateway.services.clock import now_ms
from tests.support.admin.gateway_client import Answer

A = "/api/v1/clusters/standalone/alerts"
SECRET = "https://hooks.example.com/services/T000/B000/CANARY-7"
RULE = {
    "name": "deep",
    "definition": {"kind": "totals", "figure": "backlog", "threshold": 10},
    "for_s": 0,
}
HOUR_MS = 3_600_000


def made(answer: Answer, status: int = 201) -> Any:
    assert answer.status == status, answer.body
    return answer.json


def channel_of(call: Any, **more: Any) -> Any:
    body = {"name": "ops", "kind": "webhook", "secret_url": SECRET, **more}
    return made(call("POST", f"{A}/channels", body))


def test_a_channels_url_is_in_no_answer_and_not_in_the_audit_log(call: Any) -> None:
    channel = channel_of(call)
    assert channel["host"] == "hooks.example.com"
    answers = [
        call("GET", f"{A}/channels"),
        call("PUT", f"{A}/channels/{channel['id']}", {"name": "ops2", "kind": "webhook"}),
        call("POST", f"{A}/channels", {"name": "ops2", "kind": "webhook", "secret_url": SECRET}),
        call(
            "POST",
            f"{A}/channels",
            {"name": "x", "kind": "webhook", "secret_url": "http://CANARY-7"},
        ),
    ]
    assert [answer.status for answer in answers] == [200, 200, 409, 400]
    assert all(b"CANARY-7" not in answer.body for answer in answers)
    stored = AlertChannel.objects.get(name="ops2")
    assert stored.secret_url == SECRET, "a change without a URL keeps it"
    entries = list(AuditEntry.objects.all())
    assert len(entries) == 4
    for entry in entries:
        assert "CANARY-7" not in entry.given + entry.changes + entry.target


def test_a_rule_is_made_changed_listed_and_deleted_with_audit_entries(call: Any) -> None:
    channel = channel_of(call)
    rule = made(call("POST", f"{A}/rules", {**RULE, "channels": [channel["id"]]}))
    assert rule["words"] == "all topics together: backlog above 10 messages"
    changed = {**RULE, "name": "deeper", "for_s": 60}
    path = f"{A}/rules/{rule['id']}"
    assert made(call("PUT", path, changed), 200)["channels"] == []
    (row,) = made(call("GET", f"{A}/rules"), 200)["rows"]
    assert (row["name"], row["for_s"], row["firing"]) == ("deeper", 60, 0)
    assert (call("DELETE", path)).status == 204
    assert (call("DELETE", path)).status == 404
    entry = AuditEntry.objects.filter(operation="changeAlertRule").last()
    assert entry is not None
    (change,) = json.loads(entry.changes)
    assert change["before"]["for_s"] == 0
    assert change["after"]["for_s"] == 60


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"definition": {"kind": "topic", "figure": "no"}}, "figure"),
        ({"definition": {"kind": "no"}}, "definition"),
        ({"for_s": -1}, "for_s"),
        ({"channels": [99]}, "channels"),
        ({"escalate_s": 60}, "escalate_to"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_field(
    call: Any, change: dict[str, Any], field: str
) -> None:
    answer = call("POST", f"{A}/rules", {**RULE, **change})
    assert answer.status == 400
    assert answer.json["field"] == field


def test_a_rule_of_a_tenant_stays_within_it(call: Any) -> None:
    everything = channel_of(call)
    topic = {**RULE, "definition": {"kind": "topic", "figure": "backlog", "scope": "public"}}
    own = made(call("POST", f"{A}/rules?tenant=public", topic))
    assert own["tenant"] == "public"
    for refused in (RULE, {**topic, "name": "x", "channels": [everything["id"]]}):
        assert (call("POST", f"{A}/rules?tenant=public", refused)).status == 400
    whole = made(call("POST", f"{A}/rules", {**RULE, "name": "whole"}))
    listed = made(call("GET", f"{A}/rules?tenant=public"), 200)["rows"]
    assert [row["id"] for row in listed] == [own["id"]]
    path = f"{A}/rules/{whole['id']}?tenant=public"
    assert (call("DELETE", path)).status == 404
    assert len(made(call("GET", f"{A}/rules"), 200)["rows"]) == 2


def test_rules_are_given_to_prometheus_and_grafana(call: Any) -> None:
    made(call("POST", f"{A}/rules", RULE))
    text = (call("GET", f"{A}/prometheus-rules")).body.decode()
    assert 'sum by (cluster) (pulsar_msg_backlog{cluster=\\"standalone\\"}) > 10' in text
    board = made(call("GET", f"{A}/dashboard"), 200)
    assert [panel["title"] for panel in board["panels"]] == ["deep"]


def firing(**more: Any) -> AlertFiring:
    values = {"cluster": "c", "rule_id": 1, "rule_name": "r", "severity": "error", "object": "o"}
    values |= {"object_hash": "h", "title": "t", "since": 0, "state": "firing"}
    return AlertFiring.objects.create(**values | more)


@pytest.mark.django_db
def test_a_firing_is_acknowledged_and_silenced_by_its_owner_alone() -> None:
    topic = "persistent://a/n/t"
    own = firing(tenant="a", topic=topic, subscription="s")
    other = Owned("c", "b")
    with pytest.raises(NotFound):
        acknowledge(other, own.pk, "", "eve")
    asked = {"rule_id": None, "firing_id": own.pk, "scope": "", "subscription": ""}
    asked |= {"until": now_ms() + HOUR_MS, "reason": "known"}
    with pytest.raises(NotFound):
        make_silence(other, asked, "eve")
    assert acknowledge(Owned("c", "a"), own.pk, "seen", "ada").acked_by == "ada"
    silence = make_silence(Owned("c", "a"), asked, "ada")
    assert (silence.rule_id, silence.object, silence.scope) == (1, "o", topic)
    AlertFiring.objects.update(state="ended", ended_at=1)
    with pytest.raises(Conflict):
        acknowledge(Owned("c", "a"), own.pk, "", "ada")


@pytest.mark.django_db
def test_a_silence_needs_something_to_silence_and_a_time() -> None:
    nothing = {"rule_id": None, "firing_id": None, "scope": "", "subscription": "", "reason": "r"}
    with pytest.raises(InvalidField, match="all would be silent"):
        make_silence(Owned("c", ""), {**nothing, "until": now_ms() + HOUR_MS}, "ada")
    with pytest.raises(InvalidField, match="future"):
        make_silence(Owned("c", ""), {**nothing, "scope": "t", "until": 5}, "ada")
    with pytest.raises(InvalidField, match="must be in tenant a"):
        make_silence(Owned("c", "a"), {**nothing, "scope": "b", "until": now_ms() + HOUR_MS}, "ada")


@pytest.mark.django_db
def test_a_tenant_has_room_for_a_bounded_number_of_rules() -> None:
    for index in range(ROWS_PER_TENANT_MAX):
        AlertRule.objects.create(
            cluster="c", tenant="a", name=str(index), severity="info", definition={}, for_s=0,
            created_at=0, changed_at=0,
        )  # fmt: skip
    with pytest.raises(Conflict, match=str(ROWS_PER_TENANT_MAX)):
        Owned("c", "a").check_room(AlertRule, 100)
    Owned("c", "b").check_room(AlertRule, 100)
    assert not AlertDelivery.objects.exists()
