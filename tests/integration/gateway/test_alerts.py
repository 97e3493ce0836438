"""Alerts of a running instance: a webhook and an e-mail are received, once each although the gateway is killed."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.alerts.definitions import FIGURES, RuleKind
from tests.support.instance import Instance, running_instance
from tests.support.net.receivers import SECRET, MailSink, Webhook, serving
from tests.support.stores.postgresql import programs, running_postgresql
from tests.support.waiting import until_blocking

A = "/api/v1/clusters/standalone/alerts"


@pytest.fixture(scope="module")
def webhook() -> Iterator[Webhook]:
    yield from serving(Webhook())


@pytest.fixture(scope="module")
def sink() -> Iterator[MailSink]:
    yield from serving(MailSink())


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a PostgreSQL; skipped where it is missing."""
    if programs() is None:
        pytest.skip("initdb and postgres are missing")
    with running_postgresql() as server:
        yield server.url


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def instance(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    webhook: Webhook,
    sink: MailSink,
) -> Iterator[Instance]:
    """An instance on each of the databases that the gateway may have."""
    webhook.received.clear()
    webhook.refused.clear()
    sink.mails.clear()
    database = {}
    if request.param == "postgresql":
        database["MAGNETAR_DATABASE_URL"] = request.getfixturevalue("postgresql")
    settings = database | {
        "MAGNETAR_ALERT_DESTINATIONS": "127.0.0.1",
        "MAGNETAR_SMTP_HOST": "127.0.0.1",
        "MAGNETAR_SMTP_PORT": str(sink.server_address[1]),
        "MAGNETAR_SMTP_SECURITY": "none",
        "MAGNETAR_MAIL_FROM": "alerts@instance.example",
    }
    with running_instance(tmp_path_factory.mktemp("alerts"), **settings) as running:
        yield running


def made(instance: Instance, path: str, body: Any) -> Any:
    status, answer = instance.rest("POST", f"{A}/{path}", body)
    assert status in (200, 201), answer
    return answer


def open_firings(instance: Instance) -> list[Any]:
    status, answer = instance.rest("GET", f"{A}/firings?state=open")
    return answer["rows"] if status == 200 else []


def topics_rule(name: str, channels: list[int], above: int) -> dict[str, Any]:
    definition = {"kind": "totals", "figure": "topics", "threshold": above}
    return {"name": name, "definition": definition, "for_s": 0, "channels": channels}


def test_a_firing_is_received_by_webhook_and_mail_and_ends(
    instance: Instance, webhook: Webhook, sink: MailSink
) -> None:
    hook = made(instance, "channels", {"name": "h", "kind": "webhook", "secret_url": webhook.url})
    mail = {"name": "m", "kind": "email", "recipients": ["ops@team.example"]}
    mailed = made(instance, "channels", mail)
    tested = made(instance, f"channels/{hook['id']}/test", {})
    assert (tested, len(webhook.received)) == ({"accepted": True, "error": ""}, 1)
    webhook.received.clear()
    channels = [hook["id"], mailed["id"]]
    topics = instance.rest("GET", "/api/v1/clusters/standalone/overview")[1]["totals"]["topics"]
    rule = made(instance, "rules", topics_rule("many", channels, topics))
    instance.rest("PUT", "/admin/v2/persistent/public/default/one-more")
    until_blocking(lambda: len(webhook.received) == 1 and len(sink.mails) == 1, bound_s=120)
    assert webhook.received[0]["event"] == "begin"
    assert "Subject: [standalone] warning firing: many: standalone" in sink.mails[0]
    (firing,) = open_firings(instance)
    acknowledged = made(instance, f"firings/{firing['id']}/acknowledge", {"note": "seen"})
    assert acknowledged["note"] == "seen"
    instance.rest("DELETE", "/admin/v2/persistent/public/default/one-more")
    until_blocking(lambda: len(webhook.received) == 2 and len(sink.mails) == 2, bound_s=120)
    assert webhook.received[1]["event"] == "end"
    assert SECRET not in instance.logs(1 << 20)
    instance.rest("DELETE", f"{A}/rules/{rule['id']}")


def test_each_figure_is_evaluated_over_what_a_real_broker_reports(instance: Instance) -> None:
    topic = "/admin/v2/persistent/public/default/evaluated"
    assert instance.rest("PUT", topic)[0] == 204
    assert instance.rest("PUT", f"{topic}/subscription/s")[0] == 204
    of_cluster = "/api/v1/clusters/standalone"
    messages = f"{of_cluster}/topics/persistent/public/default/evaluated/messages"
    assert instance.rest("POST", messages, {"messages": [{"value": "x"}]})[0] == 200

    def backlogs() -> list[int]:
        listed = instance.rest("GET", f"{of_cluster}/subscriptions?q=evaluated")[1]
        return [row["backlog"] for row in listed["rows"]]

    until_blocking(lambda: backlogs() == [1])
    for kind, figures in FIGURES.items():
        for figure in figures or ("",):
            given = {"kind": kind, "figure": figure, "threshold": -1}
            answer = made(instance, "preview", {"definition": given, "for_s": 0})
            # Of a link there is no figure here; of each other object there is one above -1.
            assert answer["now"] or kind in (RuleKind.LINK, RuleKind.ATTENTION), (kind, figure)
    instance.rest("DELETE", f"{topic}?force=true")


def test_a_firing_is_notified_although_the_gateway_is_killed_before_it_is_delivered(
    instance: Instance, webhook: Webhook
) -> None:
    """Kill the gateway while the receiver refuses; the delivery arrives once after the restart, with its id."""
    channel = {"name": "killed", "kind": "webhook", "secret_url": webhook.url}
    hook = made(instance, "channels", channel)
    webhook.refused.clear()
    webhook.received.clear()
    webhook.status = 503
    made(instance, "rules", topics_rule("any", [hook["id"]], -1))
    until_blocking(lambda: len(webhook.refused) > 0, bound_s=120)
    (firing,) = open_firings(instance)
    assert firing["deliveries"][0]["error"] == "127.0.0.1 answers HTTP 503"
    instance.kill("gateway")
    webhook.status = 200
    instance.wait_running("gateway")
    until_blocking(lambda: len(webhook.received) > 0, bound_s=120)
    time.sleep(3)  # time: a second notification would arrive within some rounds
    assert [document["id"] for document in webhook.received] == [webhook.refused[0]["id"]]
    (after,) = open_firings(instance)
    assert (after["id"], after["began_at"]) == (firing["id"], firing["began_at"])
