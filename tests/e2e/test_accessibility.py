"""No axe violations and no sideways scrolling: every page and dialog, light at three widths and dark at one (colours do
not depend on the width), on an instance with traffic."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.life.life import Life
from tests.support.life.screenshots import DIALOGS, PAGES

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
WIDTHS = (1440, 768, 360)
LOOKS = [*(("light", width) for width in WIDTHS), ("dark", WIDTHS[0])]
PATIENCE_MS = 60_000
SETTLED = """
() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(
  document.getAnimations().every(({effect, playState}) =>
    playState !== "running" || effect.getComputedTiming().endTime === Infinity)
))))
"""
"""JavaScript: the page was drawn with its new width and colours, and no transition is under way."""
AXE = """
([where, tags]) => axe.run(where, {runOnly: {type: "tag", values: tags}, resultTypes: ["violations"]})
  .then(({violations}) => violations.map(({id, nodes}) => [id, nodes.slice(0, 3).map((node) => node.html)]))
"""


def violations(page: Page, name: str, axe_source: str, within: str = "html") -> list[str]:
    """Return the violations inside the selector ``within``, at each look."""
    problems = []
    page.evaluate(axe_source)
    for scheme, width in LOOKS:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(SETTLED)
        where = f"{name} {scheme} {width} px"
        for rule, nodes in page.evaluate(AXE, [within, RULES]):
            problems.append(f"{where} {rule}: {[node[:160] for node in nodes]}")
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if overflow > 0:
            problems.append(f"{where} scrolls sideways by {overflow} px")
    return problems


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["pages", "dialogs"])
def test_no_axe_violations(browser: Browser, life: Life, axe_source: str, kind: str) -> None:
    context = browser.new_context(base_url=life.instance.http, bypass_csp=True)  # for axe's script
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    steps = {name: (path, None) for name, path in PAGES.items()} if kind == "pages" else DIALOGS
    within = "html" if kind == "pages" else "[role=dialog]"
    problems = []
    for name, (path, step) in steps.items():
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=PATIENCE_MS)
        if step is not None:
            step(page)
            expect(page.get_by_role("dialog")).to_be_visible(timeout=PATIENCE_MS)
        problems += violations(page, name, axe_source, within)
    context.close()
    assert not problems, "\n".join(problems)
