"""BookKeeper's HTTP pages of a bookie, ``/api/v1/bookie/*``, with its paths, methods and texts, and our page of the
scrubber. They know no client: what changes something is refused unless the operator allows it."""

from collections.abc import Awaitable, Callable

from bookie.server import Bookie
from engine.net.http import TEXT, Request, Response, json_response

PREFIX = "/api/v1/bookie/"

Page = Callable[[Request], Awaitable[Response]]


def text(status: int, value: str) -> Response:
    return Response(status, value.encode(), TEXT)


class BookiePages:
    """The pages of one bookie; ``changes`` allows changes."""

    def __init__(self, bookie: Bookie, *, changes: bool) -> None:
        self._bookie = bookie
        self._changes = changes
        self._pages: dict[tuple[str, str], Page] = {
            ("GET", "scrub"): self._scrub,
            ("PUT", "scrub"): self._scrub_now,
        }

    async def answer(self, request: Request) -> Response | None:
        """Answer a request of these pages; None for another path."""
        if not request.path.startswith(PREFIX):
            return None
        method = "GET" if request.method == "HEAD" else request.method
        page = self._pages.get((method, request.path.removeprefix(PREFIX)))
        if page is None:
            return None
        if method != "GET" and not self._changes:
            return text(403, "Changes are refused: see the setting http_server_changes_enabled")
        return await page(request)

    async def _scrub(self, request: Request) -> Response:
        return json_response(200, self._bookie.serving.scrubber.state())

    async def _scrub_now(self, request: Request) -> Response:
        self._bookie.serving.scrubber.hurry()
        return await self._scrub(request)
