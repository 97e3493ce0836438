"""Backlogs and status line of a page, sampled ten times a second by a script inside the page."""

import json
import re
from dataclasses import dataclass

from playwright.sync_api import BrowserContext, Error, Page

STATUS = "[data-status-line]"
LOOK = """
(() => {
  const text = (node) => (node ? node.innerText.trim() : "");
  const marks = /last known|not known|at rest|stale|as of/i;
  function figures() {
    const found = [];
    for (const row of document.querySelectorAll("tbody tr, [role=row]")) {
      const link = row.querySelector("a[title], a");
      if (!link) continue;
      const table = row.closest("table, [role=grid], [role=table]");
      const heads = [...table.querySelectorAll("th, [role=columnheader]")];
      const column = heads.findIndex((head) => /^backlog/i.test(text(head)));
      const cell = row.querySelectorAll("td, th, [role=gridcell], [role=rowheader]")[column];
      if (cell) found.push([link.title || text(link), text(cell), marks.test(text(row))]);
    }
    for (const label of document.querySelectorAll("main dt")) {
      if (text(label) !== "Backlog") continue;
      const value = label.nextElementSibling;
      const card = label.closest("section[aria-label^=Subscription]");
      const name = card ? card.getAttribute("aria-label") : "Backlog";
      found.push([name, text(value).split("\\n")[0], marks.test(text(label.parentElement))]);
    }
    return found;
  }
  window.lastLook = "";
  window.setInterval(() => {
    if (!document.body) return;
    const status = text(document.querySelector("[data-status-line]"));
    const seen = figures();
    const now = JSON.stringify([status, seen]);
    if (now === window.lastLook) return;
    window.lastLook = now;
    sessionStorage.setItem(`look ${Date.now()}`, JSON.stringify([status, seen]));
  }, 100);
})();
"""
_UNITS = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9}


@dataclass(frozen=True, slots=True)
class Look:
    """A sample in which something had changed: the status line, and (name, figure, marked) of each backlog."""

    at_ms: int
    status: str
    figures: list[tuple[str, str, bool]]

    @property
    def is_stale(self) -> bool:
        """True while the page marks all its numbers as old, or has none yet."""
        return not re.search(r"\bLive\b", self.status)


def watched(context: BrowserContext, path: str) -> Page:
    """Open a page whose script samples it from the beginning."""
    page = context.new_page()
    page.add_init_script(LOOK)
    page.goto(path)
    return page


def forget_looks(page: Page) -> None:
    """Remove the samples of a page; what it shows now is the first of the new ones."""
    page.evaluate("""() => {
      const keys = Object.keys(sessionStorage).filter((key) => key.startsWith("look "));
      for (const key of keys) sessionStorage.removeItem(key);
      window.lastLook = "";
    }""")


def looks(page: Page) -> list[Look]:
    """Return the samples since the page was opened; they survive reloads."""
    stored: dict[str, str] = page.evaluate("({...sessionStorage})")
    seen = []
    for key in sorted(key for key in stored if key.startswith("look ")):
        status, figures = json.loads(stored[key])
        seen.append(Look(int(key.split()[1]), status, [tuple(figure) for figure in figures]))
    return seen


def try_goto(page: Page, path: str) -> bool:
    """Open a page; return False when the gateway is unavailable."""
    try:
        page.goto(path)
    except Error:
        return False
    return True


def number(text: str) -> float | None:
    """Return ``12,003``, ``≈ 12,000 (40 entries)`` or ``12K`` as a number; None when no figure is shown."""
    match = re.match(r"(?:[≈≥] )?([\d,.]+)\s?([KMB]?)\b", text)
    return float(match[1].replace(",", "")) * _UNITS[match[2]] if match else None
