"""No axe violations and no sideways scrolling: every page and dialog, light at three widths and dark at one, on an
instance with traffic."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.life.life import Life
from tests.support.life.screenshots import DIALOGS, PAGES

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
OF_COLOURS = ["color-contrast", "link-in-text-block"]
"""Rules that depend on the theme. All others depend on the document and the layout, which no theme changes."""
EVERYTHING = {"type": "tag", "values": TAGS}
ALL_RULES = {"runOnly": EVERYTHING}
LAYOUT = {"runOnly": EVERYTHING, "rules": {rule: {"enabled": False} for rule in OF_COLOURS}}
COLOURS = {"runOnly": {"type": "rule", "values": OF_COLOURS}}
LOOKS: list[tuple[str, int, dict[str, Any]]] = [
    ("light", 1440, ALL_RULES),
    ("light", 768, LAYOUT),  # what it shows is shown at one of the other widths in the same colours
    ("light", 360, ALL_RULES),
    ("dark", 1440, COLOURS),
]
PATIENCE_MS = 60_000
SETTLED = """
() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(
  document.getAnimations().every(({effect, playState}) =>
    playState !== "running" || effect.getComputedTiming().endTime === Infinity)
))))
"""
"""JavaScript: the page was drawn with its new width and colours, and no transition is under way."""
# Preloaded style sheets and media are for rules that judge neither this console nor any of these tags.
AXE = """
([where, options]) => axe.run(where, {...options, resultTypes: ["violations"], preload: false})
  .then(({violations}) => violations.map(({id, nodes}) => [id, nodes.slice(0, 3).map((node) => node.html)]))
"""


def violations(page: Page, name: str, within: str) -> list[str]:
    """Return the violations inside the selector ``within``, at each look."""
    problems = []
    for scheme, width, rules in LOOKS:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(SETTLED)
        where = f"{name} {scheme} {width} px"
        for rule, nodes in page.evaluate(AXE, [within, rules]):
            problems.append(f"{where} {rule}: {[node[:160] for node in nodes]}")
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if overflow > 0:
            problems.append(f"{where} scrolls sideways by {overflow} px")
    return problems


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["pages", "dialogs"])
def test_no_axe_violations(browser: Browser, life: Life, axe_source: str, kind: str) -> None:
    context = browser.new_context(
        base_url=life.instance.http,
        reduced_motion="reduce",
        bypass_csp=True,  # for axe's script
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    steps = {name: (path, None) for name, path in PAGES.items()} if kind == "pages" else DIALOGS
    within = "html" if kind == "pages" else "[role=dialog]"
    problems = []
    loaded = ""
    for name, (path, step) in sorted(steps.items(), key=lambda item: item[1][0]):
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": LOOKS[0][1], "height": 900})
        if path != loaded:
            page.goto(path)
            expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=PATIENCE_MS)
            page.evaluate(axe_source)
            loaded = path
        if step is not None:
            step(page)
            expect(page.get_by_role("dialog")).to_be_visible(timeout=PATIENCE_MS)
        problems += violations(page, name, within)
        if step is not None:
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)
    context.close()
    assert not problems, "\n".join(problems)
