"""Definitions as a file in a browser: exported, compared, previewed as a change set, and applied."""

import json

from playwright.sync_api import Page, expect

from tests.e2e.axe import violations
from tests.support.instance import Instance

WAIT_MS = 30_000
WORKER_MS = 120_000
"""A busy machine starts the first worker slowly."""
TOPIC = "persistent://public/default/defined"
ADMIN = "/admin/v2/persistent/public/default"


def test_a_file_is_compared_previewed_and_applied(
    instance: Instance, page: Page, axe_source: str
) -> None:
    page.add_init_script(axe_source)
    page.goto("/c/standalone/changes")
    page.get_by_role("link", name="Definitions as a file").click(timeout=WAIT_MS)
    with page.expect_download(timeout=WAIT_MS) as download:
        page.get_by_role("link", name="JSON").click()
    document = json.loads(download.value.path().read_text())
    assert "public/default" in document["namespaces"]
    text = page.get_by_label("Definitions in YAML or JSON")
    text.fill(json.dumps(document))
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("The cluster is as the file has it.")).to_be_visible(timeout=WAIT_MS)

    document["topics"][TOPIC] = {
        "partitions": 2,
        "schema": {"type": "STRING"},
        "subscriptions": {"s": {"properties": {}, "replicated": True}},
    }
    text.fill(json.dumps(document))
    page.get_by_role("button", name="Compare").click()
    rows = page.get_by_role("table", name="Differences of the file").locator("tbody tr")
    expect(rows).to_have_count(2, timeout=WAIT_MS)
    expect(rows.first).to_contain_text("to be created")
    assert violations(page, "definitions", "main") == []
    page.get_by_role("button", name="Preview 2 changes").click()
    apply = page.get_by_role("button", name="Apply definitions of 2 objects")
    apply.click(timeout=WORKER_MS)
    expect(page.get_by_text("2 of 2 changed")).to_be_visible(timeout=WORKER_MS)
    assert violations(page, "a change set of definitions", "main") == []
    answer = instance.rest("GET", "/admin/v2/persistent/public/default/defined/partitions")
    assert answer[1]["partitions"] == 2
    answer = instance.rest("GET", "/admin/v2/schemas/public/default/defined/schema")
    assert answer[1]["type"] == "STRING"
    flags = instance.rest("GET", f"{ADMIN}/defined/subscription/s/replicatedSubscriptionStatus")
    assert set(flags[1].values()) == {True}

    page.goto("/c/standalone/definitions")
    text.fill(json.dumps(document))
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("The cluster is as the file has it.")).to_be_visible(timeout=WAIT_MS)
    document["topics"][TOPIC]["schema"] = {"type": "INT32"}
    text.fill(json.dumps(document))
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("button", name="Preview 1 change").click(timeout=WAIT_MS)
    expect(page.get_by_text("not compatible")).to_be_visible(timeout=WORKER_MS)
