"""The Schema tab on an instance with traffic: versions and the clients that use them, two versions side by side, a
candidate checked and tried on stored messages, and registered as it was confirmed."""

import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.life.cast import Story
from tests.support.life.described import DESCRIBED, FIRST, NEW, OLD, RAW
from tests.support.life.life import Life, admin_path, console_path

SCHEMA = console_path(DESCRIBED, "schema")


def order(*more: dict[str, Any]) -> str:
    optional = (("id", "int"), ("note", "string"), ("price", "float"))
    fields = [{"name": name, "type": ["null", of], "default": None} for name, of in optional]
    document = {"type": "record", "name": "Order", "namespace": "shop", "fields": [*fields, *more]}
    return json.dumps(document)


CURRENCY = {"name": "currency", "type": "string"}
WITH_DEFAULT = CURRENCY | {"default": "EUR"}


def attempt(page: Page, definition: str, messages: int = 100) -> None:
    page.get_by_label("Type").select_option("JSON")
    page.get_by_role("textbox", name="Definition").fill(definition)
    page.get_by_label("Messages to rehearse").fill(str(messages))
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_role("region", name="Rehearsal")).to_be_visible()


def test_versions_name_their_producers_and_back_restores_the_view(life: Life, page: Page) -> None:
    page.goto(console_path(DESCRIBED))
    page.get_by_role("link", name="Schema").click()
    rows = page.get_by_role("region", name="Versions").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.nth(1)).to_contain_text(re.compile(r"2\s*1\s*1"))
    expect(rows.nth(2)).to_contain_text(re.compile(r"1\s*1\s*0"))
    page.get_by_role("link", name="Version 1").click()
    shown = page.get_by_role("region", name="Version 1", exact=True)
    expect(shown).to_contain_text("1 producer: cart-old")
    expect(shown.get_by_role("region", name="Definition of version 1")).to_contain_text('"note"')
    shown.get_by_label("Compare with another version").select_option("2")
    fields = page.get_by_role("region", name="Fields from version 1 to version 2")
    expect(fields.get_by_role("row")).to_have_count(2)
    expect(fields).to_contain_text(re.compile(r"price\s*added\s*not there\s*null \| float"))
    page.go_back()
    expect(fields).to_have_count(0)
    page.go_back()
    expect(page.get_by_role("region", name="Version 2", exact=True)).to_be_visible()
    page.go_back()
    expect(page).to_have_url(re.compile("/described/overview"))


def test_a_dropped_default_is_named_with_field_producer_and_exact_count(
    life: Life, page: Page
) -> None:
    page.goto(SCHEMA)
    attempt(page, order(WITH_DEFAULT), 1_000)
    expect(page.get_by_text("It may follow version 2.")).to_be_visible()
    result = page.get_by_role("region", name="Result")
    counts = rf"Decode\s*{FIRST + OLD + NEW}\s*Do not decode\s*{RAW}\s*Left out\s*0"
    expect(result).to_contain_text(re.compile(counts))
    attempt(page, order(CURRENCY), 1_000)
    expect(page.get_by_text("It may not follow version 2.")).to_be_visible()
    expect(result).to_contain_text(re.compile(r"field currency"))
    broken = result.get_by_role("row")
    for producer, version, count in (
        ("cart", "version 2", NEW),
        ("cart-old", "version 1", OLD),
        ("importer", "version 0", FIRST),
    ):
        row = broken.filter(has=page.get_by_role("cell", name=producer, exact=True))
        expect(row).to_contain_text(re.compile(rf"currency\s*{count}\s*{producer}\s*{version}"))
    expect(broken.filter(has_text="legacy")).to_contain_text(re.compile(rf"{RAW}\s*legacy"))
    expect(page.get_by_role("button", name="Register…")).to_be_disabled()
    stats = life.instance.rest("GET", f"{admin_path(DESCRIBED)}/stats")[1]
    assert stats["subscriptions"].keys() == {DESCRIBED.subscription}, (
        "a rehearsal left a subscription"
    )


def own_topic(life: Life, local: str) -> Story:
    story = Story(f"persistent://shop/returns/{local}", "", None)
    status, answer = life.instance.rest("PUT", admin_path(story))
    assert status == 204, answer
    return story


def upload(life: Life, story: Story, definition: str) -> None:
    path = f"/admin/v2/schemas/{quote(story.path)}/schema"
    body = {"type": "JSON", "schema": definition, "properties": {}}
    status, answer = life.instance.rest("POST", path, body)
    assert status == 200, answer


def test_a_schema_is_registered_as_confirmed(
    life: Life, page: Page, context: BrowserContext
) -> None:
    story = own_topic(life, "registered")
    page.goto(console_path(story, "schema"))
    expect(page.get_by_text("No schema", exact=True)).to_be_visible()
    watching = context.new_page()
    watching.goto(console_path(story, "schema"))
    attempt(page, order())
    page.get_by_role("button", name="Register…").click()
    page.get_by_role("button", name="Register the first version").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("It is version 0 now")
    page.keyboard.press("Escape")
    expect(watching.get_by_role("link", name="Version 0")).to_be_visible()

    attempt(page, order(WITH_DEFAULT))
    page.get_by_role("button", name="Register…").click()
    expect(page.get_by_role("button", name="Register behind version 0")).to_be_visible()
    upload(life, story, order(WITH_DEFAULT | {"name": "other"}))
    expect(page.get_by_text("The schema changed since it was tried")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("It may follow version 1.")).to_be_visible()

    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete 2 versions").click()
    expect(page.get_by_text("No schema", exact=True)).to_be_visible()
    expect(watching.get_by_text("No schema", exact=True)).to_be_visible()
    audited = life.instance.rest("GET", "/api/v1/audit?q=returns/registered/schemas")[1]["rows"]
    assert [row["method"] for row in audited] == ["DELETE", "POST"], "reads are audited as changes"


@pytest.mark.timeout(300)
def test_an_unavailable_part_is_named(life: Life, page: Page) -> None:
    page.goto(SCHEMA)
    expect(page.get_by_role("link", name="Version 2")).to_be_visible()
    with life.frozen("zookeeper"):
        page.get_by_role("textbox", name="Definition").fill('"string"')
        page.get_by_role("button", name="Try it").click()
        alert = page.get_by_role("alert").filter(has_text="could not be tried")
        expect(alert).to_contain_text(re.compile("metadata store", re.IGNORECASE))
        expect(page.get_by_role("link", name="Version 2")).to_be_visible()
    expect(page.get_by_text("All parts answer").last).to_be_visible()
    attempt(page, order())
    expect(page.get_by_text("It is version 2 already.")).to_be_visible()
