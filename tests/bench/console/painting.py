"""Measurements in a browser: a number's way from the broker's count to the page, and the opening of a page."""

from collections.abc import Mapping
from math import isnan
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.bench.console.windows import percentiles

CHROMIUM = "/usr/bin/chromium"
MARKS = """
(() => {
  const pushes = [];
  window.__pushes = pushes;
  let waiting = null;
  const Wire = window.WebSocket;
  window.WebSocket = class extends Wire {
    set onmessage(take) {
      super.onmessage = (event) => {
        const message = JSON.parse(event.data);
        if (message.channel && message.data) waiting ??= { at: message.at, came: Date.now() };
        take(event);
      };
    }
  };
  const isClock = (node) => /as of/.test((node.parentElement ?? node).closest?.("span[title]")?.textContent ?? "");
  new MutationObserver((changes) => {
    if (!waiting || changes.every((change) => isClock(change.target))) return;
    pushes.push({ age: Date.now() - waiting.at, came: waiting.came - waiting.at });
    waiting = null;
  }).observe(document, { subtree: true, childList: true, characterData: true });
  window.__long = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.__long.push(entry.duration);
  }).observe({ type: "longtask", buffered: true });
})();
"""
PAINTED = """
(action) => new Promise((done) => {
  // Without rows there is no grid.
  const grid = () => document.querySelector("[role=grid]");
  const heads = [...(grid()?.querySelectorAll("[role=columnheader]") ?? [])];
  const head = action.column && heads.find((each) => each.textContent.startsWith(action.column));
  if (action.column && !head) return done(NaN);
  const shown = () => (head ? head.ariaSort : (grid()?.ariaRowCount ?? "0"));
  const before = shown();
  const began = performance.now();
  if (head) head.click();
  else {
    const field = document.querySelector("search input");
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
    set.call(field, action.text);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  const look = () => {
    const taken = () => performance.now() - began;
    if (taken() > 20000) done(NaN);
    else if (grid()?.ariaBusy !== "true" && shown() !== before) requestAnimationFrame(() => done(taken()));
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})
"""
"""Script that measures ms from a click or a keystroke until the other rows are painted."""
FIRST_ROW = "[role=grid] [role=row] a, main a[href*='/t/'], main td a"


class Browser:
    """Chromium with one page open. All of its requests have ``headers``."""

    def __init__(self, http: str, headers: Mapping[str, str] | None = None) -> None:
        self._playwright = sync_playwright().start()
        self._chromium = self._playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        self._context = self._chromium.new_context(
            base_url=http,
            viewport={"width": 1280, "height": 800},
            extra_http_headers={**(headers or {})},
        )
        self._context.add_init_script(MARKS)
        self.page: Page = self._context.new_page()

    def close(self) -> None:
        self._chromium.close()
        self._playwright.stop()

    def pushes(self, route: str, seconds: float) -> dict[str, float]:
        """Return the ages in ms of numbers when the page has them (``came``) and when it shows them (``shown``)."""
        self.page.goto(route)
        self.page.wait_for_function("() => window.__pushes.length > 2", timeout=60_000)
        self.page.evaluate("() => { window.__pushes.length = 0; }")
        self.page.wait_for_timeout(seconds * 1000)
        pushes: list[dict[str, float]] = self.page.evaluate("() => window.__pushes")
        return {
            "pushes": float(len(pushes)),
            **percentiles("came ms", [push["came"] for push in pushes]),
            **percentiles("shown ms", [push["age"] for push in pushes]),
        }

    def opening(self, route: str) -> dict[str, float]:
        """Return ms until the first paint and the first rows, long tasks, rows in the DOM, heap after a collection."""
        self.page.goto(route)
        self.page.wait_for_selector(FIRST_ROW, timeout=60_000)
        rows: float = self.page.evaluate("() => performance.now()")
        self.page.wait_for_timeout(3_000)
        painted: float = self.page.evaluate(
            "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"
        )
        long: list[float] = self.page.evaluate("() => window.__long")
        session = self._context.new_cdp_session(self.page)
        session.send("HeapProfiler.collectGarbage")
        heap: dict[str, Any] = session.send("Runtime.getHeapUsage")
        return {
            "first paint ms": painted,
            "first rows ms": rows,
            "longest task ms": max(long, default=0.0),
            "rows in the DOM": float(self.page.locator("[role=row]").count()),
            "heap MB": heap["usedSize"] / 1e6,
        }

    def reacting(
        self, route: str, columns: tuple[str, ...], texts: tuple[str, ...]
    ) -> dict[str, float]:
        """Return ms from a click on a column's header, and from a keystroke in the filter, until other rows are
        painted."""
        self.page.goto(route)
        self.page.wait_for_selector("[role=grid] [role=row] a", timeout=60_000)
        self.page.wait_for_timeout(2_000)
        taken: dict[str, list[float]] = {"sort ms": [], "filter ms": []}
        actions = [("sort ms", {"column": column}) for column in columns]
        actions += [
            ("filter ms", {"text": text[:end]}) for text in texts for end in range(1, len(text) + 1)
        ]
        for kind, action in actions:
            ms: float = self.page.evaluate(PAINTED, action)
            if not isnan(ms):  # a column that has no room, or the same number of rows
                taken[kind].append(ms)
            self.page.wait_for_timeout(300)
        return {
            name: value
            for kind, times in taken.items()
            for name, value in percentiles(kind, times).items()
        }
