"""No axe violations and no sideways scrolling: every page and dialog, light at three widths and dark at one, on an
instance with traffic."""

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.axe import LOOKS, violations
from tests.support.life.life import Life
from tests.support.life.screenshots import DIALOGS, PAGES

PATIENCE_MS = 60_000


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
