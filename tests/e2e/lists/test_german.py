"""The console in German: the pages of daily work, without a text that stayed English, and English again."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.instance import Instance

ENGLISH = re.compile(
    r"\b(the|of|and|not|with|per|since|message|messages|is|are|no|this|by|what|why|entries|unacknowledged|loading)\b",
    re.IGNORECASE,
)
"""Words that German texts do not have."""
SHOWN = """() => {
  const texts = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode())
    if (!walk.currentNode.parentElement.closest("script, style, noscript, [lang=en]"))
      texts.push(walk.currentNode.textContent.trim());
  for (const name of ["aria-label", "title", "placeholder"])
    for (const element of document.querySelectorAll(`[${name}]`)) texts.push(element.getAttribute(name));
  return texts;
}"""
TOPIC = "/c/standalone/t/public/default/german"


def english(page: Page) -> list[str]:
    """Return the shown texts that have an English word."""
    return sorted({text for text in page.evaluate(SHOWN) if ENGLISH.search(text)})


MORE = (
    *("tenants", "tenants/public", "brokers", "bundles", "bookies", "clients", "transactions"),
    *("changes", "definitions", "dead-letters", "copies", "geo"),
)
"""Pages of a cluster that show no sentence of the gateway, as those of policies and settings do."""


@pytest.mark.timeout(300)
def test_the_pages_of_daily_work_are_german_once_it_is_chosen(
    page: Page, instance: Instance
) -> None:
    topic = "/admin/v2/persistent/public/default/german"
    assert instance.rest("PUT", topic)[0] == 204
    assert instance.rest("PUT", f"{topic}/subscription/leser")[0] == 204
    page.goto("/")
    page.get_by_label("Language").select_option("de")
    expect(page.get_by_role("heading", name="Übersicht", level=1)).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "de"
    for path, heading in (
        ("/", "Übersicht"),
        ("/c/standalone/topics", "Topics"),
        ("/c/standalone/subscriptions", "Subscriptions"),
        (f"{TOPIC}/overview", "german"),
        (f"{TOPIC}/subscriptions", "german"),
    ):
        page.goto(path)
        expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        if path.endswith("topics"):
            expect(page.get_by_role("link", name="german")).to_be_visible()
        if path == "/":  # what needs attention is named by the gateway, in English
            expect(page.get_by_text("Größte Rückstände")).to_be_visible()
        assert english(page) == [], path

    others = [f"/c/standalone/{name}" for name in MORE]
    for path in (*others, f"{TOPIC}/messages", f"{TOPIC}/manage", "/alerts", "/audit"):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert english(page) == [], path

    page.get_by_label("Sprache").select_option("en")
    expect(page.get_by_role("navigation", name="Main")).to_contain_text("Overview")
    assert page.evaluate("localStorage.getItem('magnetar-words')") is None
