"""Texts that stayed English on a page of the German console."""

import re

from playwright.sync_api import Page, expect

ENGLISH = re.compile(
    r"\b(the|of|and|not|with|per|since|message|messages|is|are|no|this|by|what|why|entries|unacknowledged|loading"
    r"|from|to|or|it|its|could|has|have|be|for|all|new|every|nothing|shown|which)\b",
    re.IGNORECASE,
)
"""Words that German texts do not have."""
QUOTED = re.compile("„[^“]*“")
"""Values of settings in a German text, which stay as they are."""
SHOWN = """() => {
  const isGerman = (element) => !element.closest("script, style, noscript, code, pre, textarea, [lang=en]");
  const texts = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode())
    if (isGerman(walk.currentNode.parentElement)) texts.push(walk.currentNode.textContent.trim());
  const given = [...document.querySelectorAll("[lang=en]")].map((element) => element.textContent.trim());
  const names = given.filter((text) => text !== "").sort((left, right) => right.length - left.length);
  for (const name of ["aria-label", "title", "placeholder"])
    for (const element of document.querySelectorAll(`[${name}]`))
      if (isGerman(element))
        texts.push(names.reduce((text, part) => text.replaceAll(part, ""), element.getAttribute(name)));
  return texts;
}"""
"""JavaScript: the texts of a page, without programs and what is marked as English: sentences of the gateway, also where
the label of a button has one that the page shows."""


def choose_german(page: Page) -> None:
    """Choose German at the page's head, and wait for it."""
    page.get_by_label("Language").first.select_option("de")
    expect(page.locator("html")).to_have_attribute("lang", "de")


def english(page: Page) -> list[str]:
    """Return the shown texts that have an English word, once the page has loaded."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    expect(page.locator("main").get_by_text(re.compile(r" (wird|werden) geladen$"))).to_have_count(
        0
    )
    return sorted({text for text in page.evaluate(SHOWN) if ENGLISH.search(QUOTED.sub("", text))})
