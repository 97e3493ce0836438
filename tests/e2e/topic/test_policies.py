"""Policies set in a browser, on a topic and on a namespace: the dialog announces exactly what will be deleted."""

from typing import Any

import pulsar
import pytest
from playwright.sync_api import Page, expect

from tests.support.instance import Instance
from tests.support.waiting import until_blocking

ADMIN = "/admin/v2/persistent/public"
KEEP = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
EARLIEST = {"ledgerId": -1, "entryId": -1}


def publish(instance: Instance, topic: str, count: int, size: int = 100) -> None:
    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(f"persistent://public/{topic}", batching_enabled=False)
    for _ in range(count):
        producer.send(b"v" * size)
    client.close()


def done(instance: Instance, method: str, path: str, body: Any = None) -> Any:
    status, answer = instance.rest(method, path, body)
    assert status in (200, 204), (method, path, status, answer)
    return answer


def stats(instance: Instance, topic: str) -> Any:
    return done(instance, "GET", f"{ADMIN}/{topic}/stats")


def policy(page: Page, title: str):  # type: ignore[no-untyped-def]
    return page.get_by_role("listitem", name=title, exact=True)


def cluster(instance: Instance) -> str:
    return str(done(instance, "GET", "/admin/v2/clusters")[0])


@pytest.mark.timeout(400)
def test_a_topics_ttl_is_set_as_previewed_removed_and_restored(
    page: Page, instance: Instance
) -> None:
    """Preview, save, remove and restore a TTL; unit/broker/administration/previews tests what expires."""
    topic = "default/ttl-here"
    done(instance, "PUT", f"{ADMIN}/{topic}")
    done(instance, "PUT", f"{ADMIN}/{topic}/subscription/reader", EARLIEST)
    publish(instance, topic, 7)
    page.goto(f"/c/{cluster(instance)}/t/public/{topic}/policies")
    ttl, dialog = policy(page, "Message TTL"), page.get_by_role("dialog")
    expect(ttl.get_by_text("broker", exact=True)).to_be_visible()
    ttl.get_by_role("button", name="Set…").click()
    dialog.get_by_role("textbox", name="Message TTL").fill("1")
    preview = dialog.locator("[data-preview]")
    expect(preview).to_contain_text("set by the brokers, to 1 s, set by this topic.")
    expect(preview).to_contain_text("7 messages that reader has not read are lost within 5 min")
    dialog.get_by_text("As a command").click()
    expect(dialog.get_by_role("region", name="pulsar-admin command")).to_contain_text(
        "topicPolicies set-message-ttl --ttl 1"
    )
    dialog.get_by_role("button", name="Save and lose 7 messages").click()
    expect(dialog.get_by_role("status")).to_contain_text("Message TTL is 1 s")
    dialog.get_by_role("button", name="Close").last.click()
    expect(ttl.get_by_text("topic", exact=True)).to_be_visible()
    assert instance.rest("GET", f"{ADMIN}/{topic}/messageTTL") == (200, 1)
    assert instance.rest("GET", f"{ADMIN}/{topic}/messageTTL?applied=true") == (200, 1)

    # Removed, so that the brokers' value applies; another user's change in between is shown first.
    ttl.get_by_role("button", name="Remove…").click()
    remove = dialog.get_by_role("button", name="Remove", exact=True)
    expect(remove).to_be_enabled()
    done(instance, "POST", f"{ADMIN}/{topic}/messageTTL?messageTTL=5")
    with page.expect_response(lambda answer: answer.status == 409):
        remove.click()
    expect(dialog.get_by_role("alert")).to_contain_text("It is set here to 5 s")
    expect(preview).to_contain_text("From 5 s, set by this topic, to never (0)")
    remove.click()
    expect(dialog.get_by_role("status")).to_contain_text("is not set here any more")
    assert instance.rest("GET", f"{ADMIN}/{topic}/messageTTL?applied=true") == (200, 0)

    # The value of the other user, restored.
    dialog.get_by_role("button", name="Restore the previous value…").click()
    expect(preview).to_contain_text("From never (0), set by the brokers, to 5 s")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("status")).to_contain_text("Message TTL is 5 s")
    assert instance.rest("GET", f"{ADMIN}/{topic}/messageTTL") == (200, 5)


@pytest.mark.timeout(400)
def test_a_namespaces_retention_frees_the_previewed_bytes(page: Page, instance: Instance) -> None:
    done(instance, "PUT", "/admin/v2/namespaces/public/kept")
    done(instance, "POST", "/admin/v2/namespaces/public/kept/retention", KEEP)
    for name in ("kept/a", "kept/own"):
        done(instance, "PUT", f"{ADMIN}/{name}")
        done(instance, "PUT", f"{ADMIN}/{name}/subscription/s", EARLIEST)
        publish(instance, name, 20, 1_000)
        done(instance, "POST", f"{ADMIN}/{name}/subscription/s/skip_all")
        done(instance, "PUT", f"{ADMIN}/{name}/unload")
        publish(instance, name, 1)
    done(instance, "POST", f"{ADMIN}/kept/own/retention", KEEP)
    before = stats(instance, "kept/a")["storageSize"]
    kept_bytes = stats(instance, "kept/own")["storageSize"]

    page.goto(f"/c/{cluster(instance)}/tenants/public/kept")
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Change properties…").click()
    dialog.get_by_role("textbox", name="Properties").fill("team=ops")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("region", name="Properties")).to_contain_text("ops")
    path = "/admin/v2/namespaces/public/kept/properties"
    assert instance.rest("GET", path) == (200, {"team": "ops"})

    policy(page, "Retention").get_by_role("button", name="Change…").click()
    dialog.get_by_role("textbox", name="Retention time").fill("0")
    with page.expect_response(
        lambda answer: answer.request.method == "POST" and answer.status == 200
    ) as preview_response:
        dialog.get_by_role("textbox", name="Retention size").fill("0")
    effects = preview_response.value.json()["effects"]
    assert (effects["topics"], effects["counted"]) == (1, 1)
    assert 0 < effects["bytes"] < before
    preview = dialog.locator("[data-preview]")
    expect(preview).to_contain_text("of storage can be freed.")
    expect(preview).to_contain_text("1 topic has its own value and keeps it")
    expect(preview).to_contain_text("persistent://public/kept/own")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("status")).to_contain_text("of storage can be freed")
    until_blocking(
        lambda: stats(instance, "kept/a")["storageSize"] == before - effects["bytes"], poll_s=0.2
    )
    assert stats(instance, "kept/own")["storageSize"] == kept_bytes
