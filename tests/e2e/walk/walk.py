"""A walk of a person over the console: what each page shows and receives, and which of its calls are refused."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import BrowserContext, Error, Locator, Request, expect

from gateway.http.static_files import HASHED_DIR
from gateway.settings import FRONT_END_DIR

PATIENCE_MS = 60_000
NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
RECORDER = (Path(__file__).parent / "recorder.js").read_text()
IMPORT = "(paths) => Promise.all(paths.map((path) => import(path)))"
"""JavaScript: fetch all code of the front end, so that no part of a page is missing while its code is fetched."""
SETTLE = """
async (patienceMs) => {
  const missing = () => {
    const { state, options } = window.__TSR_ROUTER__;
    if (state.status !== "idle" || !window.received.isQuiet() || options.context.queries.isFetching() > 0)
      return "an answer";
    if (document.querySelector("h1") === null) return "a heading";
    return document.querySelector("[class*=Skeleton-root], [aria-busy=true]")?.outerHTML ?? null;
  };
  const end = performance.now() + patienceMs;
  for (let calls = -1, quiet = 0; quiet < 3; ) {
    const waits = missing();
    if (waits !== null && performance.now() > end) return waits;
    // What an answer lets the page draw may ask for more.
    quiet = waits === null && calls === window.received.calls() ? quiet + 1 : 0;
    calls = window.received.calls();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  }
  return null;
}
"""
"""JavaScript: wait until the page has all that it asked for; return what is missing after all patience, else null."""
SHOWN = """
() => {
  const values = [...document.querySelectorAll("input, textarea, select")].map(({ value }) => value);
  const text = document.documentElement.outerHTML + values.join("\\n");
  return [document.body.innerText, window.received.canaries(text)];
}
"""
"""JavaScript: the text of the page, and the canary texts anywhere in it: titles, attributes, fields."""
DOWNLOAD = """
async () => {
  for (const { href } of document.querySelectorAll("a[download]")) await fetch(href);
}
"""
OPENING = """
() => [...document.querySelectorAll("main button")]
  .filter((button) => button.checkVisibility())
  .map(({ innerText }) => innerText.trim())
  .filter((text) => text.endsWith("…"))
"""
MENUS = "main button[aria-haspopup]"


class Refusal(NamedTuple):
    """A refused call of a page."""

    call: str
    status: int
    body: str

    @property
    def reason(self) -> str:
        """The reason that the gateway gives, which the page has to show."""
        reason: str = json.loads(self.body)["reason"]
        return reason


@dataclass(frozen=True)
class Shown:
    """The contents of a page, with all that was received since the page before."""

    path: str
    text: str
    canaries: set[str]
    received: dict[str, set[str]]
    refused: list[Refusal]

    def not_named(self) -> dict[str, set[str]]:
        """Return the canary texts shown or received by their origin, without those that the page's address names."""
        named = {canary for canary in self.canaries if canary in self.path}
        return {"page": self.canaries - named, **self.received}


class Walk:
    """A page of the console that a person uses. It goes from page to page as links do, without loading it again."""

    def __init__(self, context: BrowserContext) -> None:
        context.add_init_script(RECORDER)
        self.page = context.new_page()
        self.errors: list[str] = []
        self.lost = 0
        """Number of requests that Chromium gave up because a network of the machine changed."""
        self.received: dict[str, set[str]] = {}
        """Canary texts of all answers and pushes by request; of pushes it is that of their channel."""
        self.page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))
        self.page.on("console", self._record)
        self.page.on("requestfailed", self._record_failure)

    def _record(self, line: Any) -> None:
        # Chromium logs refused calls as errors, too; the page has to show those itself.
        of_api = line.text.startswith("Failed to load") and "/api/v1/" in line.location["url"]
        if line.type == "error" and not of_api and NETWORK_CHANGED not in line.text:
            self.errors.append(f"console: {line.text}")

    def _record_failure(self, request: Request) -> None:
        if request.failure == NETWORK_CHANGED:
            self.lost += 1
        # The console itself aborts calls whose answers no part of the page needs any more.
        elif request.failure != "net::ERR_ABORTED" or HASHED_DIR in request.url:
            self.errors.append(f"{request.url}: {request.failure}")

    def begin(self, name: str, password: str) -> None:
        """Sign in, and forget what the page did before: it knows no caller then, and is refused."""
        self.page.goto("/")
        self.page.get_by_label("Name", exact=True).fill(name)
        self.page.get_by_label("Password", exact=True).fill(password)
        self.page.get_by_role("button", name="Sign in", exact=True).click()
        expect(self.page.get_by_role("navigation", name="Main")).to_be_visible()
        while not self._fetch_code():
            self.page.reload()
            expect(self.page.get_by_role("navigation", name="Main")).to_be_visible()
        self.look("/")
        self.errors.clear()

    def _fetch_code(self) -> bool:
        """Fetch all scripts; return False when Chromium gave them up because a network of the machine changed."""
        scripts = (FRONT_END_DIR / "assets").glob("*.js")
        try:
            self.page.evaluate(IMPORT, [f"{HASHED_DIR}{path.name}" for path in scripts])
        except Error:
            if not self.lost:
                raise
            self.lost = 0
            return False
        return True

    def routes(self) -> set[str]:
        """Return the paths of the front end's own table of routes, with ``$name`` for variables."""
        return set(self.page.evaluate("() => Object.keys(window.__TSR_ROUTER__.routesByPath)"))

    def offered(self) -> set[str]:
        """Return the paths of the navigation."""
        links = self.page.get_by_role("navigation", name="Main").get_by_role("link")
        return {link.get_attribute("href") or "" for link in links.all()}

    def go(self, path: str) -> Shown:
        """Go to a page, wait until it has all that it shows, and return it."""
        while True:
            lost = self.lost
            self.page.evaluate("(path) => window.__TSR_ROUTER__.history.push(path)", path)
            try:
                shown = self.look(path)
            except Error:
                if self.lost == lost:
                    raise
            else:
                if self.lost == lost:
                    return shown
            # The page lost an answer with the machine's network, and shows what it then knows.
            self.page.reload()

    def look(self, path: str) -> Shown:
        """Return what the page at ``path`` shows, with all files that it offers."""
        missing = self.page.evaluate(SETTLE, PATIENCE_MS)
        assert missing is None, f"{path} waits for {missing}"
        text, canaries = self.page.evaluate(SHOWN)
        self.page.evaluate(DOWNLOAD)
        taken = self.page.evaluate("() => window.received.take()")
        received = {request: set(texts) for request, texts in taken["texts"]}
        for request, texts in received.items():
            self.received.setdefault(request, set()).update(texts)
        refused = [Refusal(*refusal) for refusal in taken["refused"]]
        return Shown(path, text, set(canaries), received, refused)

    def opening(self) -> list[str]:
        """Return the texts of the page's buttons that open a dialog; these end in "…"."""
        return sorted(set(self.page.evaluate(OPENING)))

    def button(self, text: str) -> Locator:
        """Return the first button of the page with this text."""
        exact = re.compile(rf"^\s*{re.escape(text)}\s*$")
        return self.page.locator("main button:visible").filter(has_text=exact).first

    def why_not(self, button: Locator) -> str | None:
        """Return why an action is refused; None for one that is not, empty for one without a reason."""
        if button.get_attribute("aria-disabled") is None:
            return "" if button.is_disabled() else None
        # As by keyboard: a pointer's focus does not show it.
        button.focus()
        self.page.keyboard.press("Shift+Tab")
        self.page.keyboard.press("Tab")
        expect(button).to_have_attribute("aria-describedby", re.compile("."))
        tooltip = button.get_attribute("aria-describedby")
        return self.page.locator(f"[id='{tooltip}']").inner_text()

    def close(self) -> None:
        """Close the open dialog or menu."""
        self.page.keyboard.press("Escape")
        expect(self.page.locator("[role=dialog], [role=menu]")).to_have_count(0)
