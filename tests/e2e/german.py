"""Texts that stayed English on a page of the German console."""

import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Locator, Page, expect

from tests.support.waiting import until_blocking

ENGLISH = re.compile(
    r"(?<![\w-])(the|of|and|not|with|per|since|message|messages|is|are|no|this|by|what|why|entries|unacknowledged|loading"
    r"|from|to|or|it|its|could|has|have|be|for|all|new|every|nothing|shown|which)(?![\w-])",
    re.IGNORECASE,
)
"""Words that German texts do not have."""
QUOTED = re.compile("„[^“]*“")
"""Values of settings in a German text, which stay as they are."""
PAYLOAD = re.compile(r"(message \d+)+")
"""Values of messages of the scripted life."""
NAMES = ('it\'s "quoted"',)
"""Names of topics with English words."""
TRANSLATIONS = Path(__file__).parents[2] / "frontend" / "translation"
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
GIVEN = """() => [...document.querySelectorAll("main [lang=en], [role=dialog] [lang=en]")]
  .filter((element) => !element.matches("option, select, :has(select)"))
  .map((element) => element.textContent.trim())
  .filter((text) => text !== "")"""
"""JavaScript: the sentences of the gateway that stayed English."""
SETTLED = """() => {
  const { state, options } = window.__TSR_ROUTER__;
  return state.status === "idle" && options.context.queries.isFetching() === 0
    && document.querySelector("h1") !== null
    && document.querySelector("[class*=Skeleton-root], [aria-busy=true]") === null;
}"""
"""JavaScript: whether the page has all that it asked for."""
OPENING = """() => [...document.querySelectorAll("main button")]
  .filter((button) => button.checkVisibility() && !button.disabled && !button.ariaDisabled)
  .map(({ innerText }) => innerText.trim())
  .filter((text) => text.endsWith("…"))"""
"""JavaScript: the texts of the buttons that open a dialog."""


OPENED = """(path) => document.querySelector("[role=dialog], [role=menu]") !== null
  || !location.href.endsWith(path)"""
"""JavaScript: whether a button has opened its dialog, or another page than that of the path."""


class EnglishTexts(NamedTuple):
    """Texts of a page that are English: of the console's own, and sentences of the gateway, which are marked so."""

    own: list[str]
    given: list[str]


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
    return _own(page)


def _own(page: Page) -> list[str]:
    texts = {text for text in page.evaluate(SHOWN) if not any(name in text for name in NAMES)}
    return sorted(text for text in texts if _is_english(text) and not PAYLOAD.fullmatch(text))


def _is_english(text: str) -> bool:
    return text in _translated() or bool(ENGLISH.search(QUOTED.sub("", text)))


@cache
def _translated() -> frozenset[str]:
    """Return the English texts of several words that have German."""
    files = (TRANSLATIONS / name for name in ("german.json", "sentences.json"))
    return frozenset(
        key
        for file in files
        for key, german in json.loads(file.read_text()).items()
        if key != german and " " in key and "{" not in key
    )


class GermanWalk:
    """A walk over the console in German, from page to page as links do, without loading it again."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: dict[str, list[str]] = {}
        """Texts of the console's own that are English, by page and dialog."""
        self.given: dict[str, set[str]] = {}
        """Sentences of the gateway without German, with the pages that show them."""

    def go(self, path: str) -> None:
        """Go to a page and judge it."""
        self.page.evaluate("(path) => window.__TSR_ROUTER__.history.push(path)", path)
        self.look(path)

    def look(self, where: str) -> EnglishTexts:
        """Judge what is shown now, once it has all that it asked for."""
        self.page.wait_for_function(SETTLED)
        texts = EnglishTexts(_own(self.page), self.page.evaluate(GIVEN))
        if texts.own:
            self.problems[where] = texts.own
        for text in texts.given:
            self.given.setdefault(text, set()).add(where)
        return texts

    def dialogs(self, path: str, fill: str = "") -> None:
        """Open each dialog of the present page, and judge it. ``fill``: what its fields then get."""
        for text in sorted(set(self.page.evaluate(OPENING))):
            self.button(text).press("Enter")
            # The code of a dialog may have to be fetched first; few buttons open none.
            for _ in range(30):
                if self.page.evaluate(OPENED, path):
                    break
                self.page.wait_for_timeout(100)
            self.look(f"{path} {text}")
            if not self.page.url.endswith(path):  # the button leads to another page
                self.go(path)
                continue
            if fill and self._fill(fill):
                self.look(f"{path} {text} with {fill!r}")
            until_blocking(self._is_closed, f"the dialog of {text} is closed")

    def _is_closed(self) -> bool:
        """Ask the dialog to close, which one that is just being opened may ignore; return whether there is none."""
        self.page.keyboard.press("Escape")
        self.page.wait_for_timeout(100)
        return self.page.locator("[role=dialog], [role=menu]").count() == 0

    def _fill(self, text: str) -> bool:
        """Fill in the fields of the open dialog and leave the last one; return whether there are any."""
        fields = self.page.locator(
            "[role=dialog] input:not([type]), [role=dialog] input[type=text]"
        )
        for field in fields.all():
            if field.is_editable():
                field.fill(text)
                field.blur()
        return fields.count() > 0

    def report(self) -> str:
        """Return the problems, a line each."""
        own = [f"{where}: {text}" for where, texts in self.problems.items() for text in texts]
        given = [f"{text} ({min(places)})" for text, places in sorted(self.given.items())]
        return "\n".join(["of the console:", *own, "of the gateway:", *given])

    def button(self, text: str) -> Locator:
        """Return the first button of the page with this text."""
        exact = re.compile(rf"^\s*{re.escape(text)}\s*$")
        return self.page.locator("main button:visible").filter(has_text=exact).first
