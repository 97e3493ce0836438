"""The console in German: no text of its pages stays English, and English again."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.german import choose_german, english
from tests.support.instance import Instance

TOPIC = "/c/standalone/t/public/default/german"


MORE = (
    *("tenants", "tenants/public", "brokers", "bundles", "bookies", "clients", "transactions"),
    *("changes", "definitions", "dead-letters", "copies", "geo", "functions", "functions/new"),
    *("roles", "roles/somebody", "settings", "tenants/public/default"),
)
"""Pages of a cluster."""
TABS = ("messages", "partitions", "manage", "schema", "traces", "access", "policies")
WHOLE = (*("/c/standalone/settings", "/c/standalone/tenants/public/default"), f"{TOPIC}/policies")
"""Pages all of whose sentences of the gateway have German."""
GIVEN = """() => [...document.querySelectorAll("main [lang=en]")].map((element) => element.textContent)"""
"""JavaScript: the sentences of the gateway that stayed English."""


@pytest.mark.timeout(300)
def test_the_pages_of_daily_work_are_german_once_it_is_chosen(
    page: Page, instance: Instance
) -> None:
    topic = "/admin/v2/persistent/public/default/german"
    assert instance.rest("PUT", topic)[0] == 204
    assert instance.rest("PUT", f"{topic}/subscription/leser")[0] == 204
    page.goto("/")
    choose_german(page)
    expect(page.get_by_role("heading", name="Übersicht", level=1)).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "de"
    for path, heading in (
        ("/", "Übersicht"),
        ("/c/standalone/topics?q=german", "Topics"),
        ("/c/standalone/subscriptions?q=leser", "Subscriptions"),
        (f"{TOPIC}/overview", "german"),
        (f"{TOPIC}/subscriptions", "german"),
    ):
        page.goto(path)
        expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
        if "/topics?" in path:
            expect(page.get_by_role("link", name="german")).to_be_visible()
        if path == "/":  # the lists are there a moment after the heading
            expect(page.get_by_text("Größte Rückstände")).to_be_visible()
        assert english(page) == [], path

    others = [f"/c/standalone/{name}" for name in MORE]
    problems = {}
    tabs = [f"{TOPIC}/{tab}" for tab in TABS]
    for path in (*others, *tabs, "/connect", "/account", "/alerts", "/audit"):
        page.goto(path)
        if texts := english(page):
            problems[path] = texts
        if path in WHOLE and (given := page.evaluate(GIVEN)):
            problems[f"{path}, of the gateway"] = given
    assert not problems

    page.get_by_label("Sprache").select_option("en")
    expect(page.get_by_role("navigation", name="Main")).to_contain_text("Overview")
    assert page.evaluate("localStorage.getItem('magnetar-words')") is None
