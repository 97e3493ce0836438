"""Findings of axe in a page, and whether the page scrolls sideways, at each of its looks."""

from collections.abc import Sequence
from typing import Any

from playwright.sync_api import Page

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
OF_COLOURS = ["color-contrast", "link-in-text-block"]
"""Rules that depend on the theme. All others depend on the document and the layout, which no theme changes."""
EVERYTHING = {"type": "tag", "values": TAGS}
ALL_RULES = {"runOnly": EVERYTHING}
LAYOUT = {"runOnly": EVERYTHING, "rules": {rule: {"enabled": False} for rule in OF_COLOURS}}
COLOURS = {"runOnly": {"type": "rule", "values": OF_COLOURS}}
Look = tuple[str, int, dict[str, Any]]
"""A theme, a width, and the rules that are judged at it."""
LOOKS: list[Look] = [
    ("light", 1440, ALL_RULES),
    ("light", 768, LAYOUT),  # what it shows is shown at one of the other widths in the same colours
    ("light", 360, ALL_RULES),
    ("dark", 1440, COLOURS),
]
SETTLE = """
async () => {
  const isStill = ({effect, playState}) =>
    playState !== "running" || effect.getComputedTiming().endTime === Infinity;
  do {
    for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
  } while (!document.getAnimations().every(isStill));
}
"""
"""JavaScript: wait until the page was drawn with its new width and colours, and no transition is under way."""
# Preloaded style sheets and media are for rules that judge neither this console nor any of these tags.
AXE = """
([where, options]) => axe.run(where, {...options, resultTypes: ["violations"], preload: false})
  .then(({violations}) => violations.map(({id, nodes}) => [id, nodes.slice(0, 3).map((node) => node.html)]))
"""


def violations(page: Page, name: str, within: str, looks: Sequence[Look] = LOOKS) -> list[str]:
    """Return the violations inside the selector ``within``, at each look. The page has axe's script."""
    problems = []
    for scheme, width, rules in looks:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(SETTLE)
        where = f"{name} {scheme} {width} px"
        for rule, nodes in page.evaluate(AXE, [within, rules]):
            problems.append(f"{where} {rule}: {[node[:160] for node in nodes]}")
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if overflow > 0:
            problems.append(f"{where} scrolls sideways by {overflow} px")
    return problems
