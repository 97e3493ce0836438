"""The page of alerts in a real browser: a channel, a rule with its preview, its firing, and what is done about it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.axe import violations
from tests.support.instance import Instance
from tests.support.net.receivers import SECRET, Webhook, serving
from tests.support.waiting import until_blocking


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    yield from serving(Webhook())


@pytest.mark.timeout(200)
def test_a_rule_fires_is_received_acknowledged_and_silenced(
    page: Page, instance: Instance, webhook: Webhook, axe_source: str
) -> None:
    page.goto("/alerts?tab=channels")
    page.get_by_role("button", name="New channel…").click()
    page.get_by_role("textbox", name="Name").fill("ops")
    page.get_by_label("URL", exact=True).fill(webhook.url)
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Test channel ops").click()
    expect(page.get_by_text("The test was accepted")).to_be_visible()
    assert webhook.received[0]["event"] == "begin"
    assert SECRET not in page.content()

    page.get_by_role("navigation", name="Alerts").get_by_role("button", name="Rules").click()
    page.get_by_role("button", name="New rule…").click()
    page.get_by_role("textbox", name="Name").fill("any topic")
    page.get_by_label("About").select_option("totals")
    page.get_by_label("Figure").select_option("topics")
    page.get_by_label("Threshold").fill("-1")
    page.get_by_label("For (seconds)").fill("0")
    preview = page.get_by_role("dialog").locator("[data-preview]")
    expect(preview).to_contain_text("all topics together: topics above -1")
    expect(preview).to_contain_text("1 object meets it now")
    expect(preview).to_contain_text("No history of this figure")
    page.get_by_role("checkbox", name="ops").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("1 firing", exact=True)).to_be_visible()
    until_blocking(lambda: len(webhook.received) == 2)

    page.get_by_role("navigation", name="Alerts").get_by_role("button", name="Firing now").click()
    expect(page.get_by_text("ops: begin sent")).to_be_visible()
    page.evaluate(axe_source)
    assert violations(page, "alerts", "main") == []
    page.get_by_role("button", name="Acknowledge…").click()
    page.get_by_label("Note").fill("seen")
    page.get_by_role("button", name="Acknowledge", exact=True).click()
    expect(page.get_by_text("acknowledged", exact=True)).to_be_visible()
    page.get_by_role("button", name="Silence…").click()
    page.get_by_label("Reason").fill("planned")
    page.get_by_role("button", name="Silence", exact=True).click()
    expect(page.get_by_text("silenced: planned")).to_be_visible()
    for row in instance.rest("GET", "/api/v1/clusters/standalone/alerts/rules")[1]["rows"]:
        instance.rest("DELETE", f"/api/v1/clusters/standalone/alerts/rules/{row['id']}")
