"""REST of dead letters: the topics that have them, and their groups."""

import asyncio
from typing import Any

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import TOPIC_PATH, WINDOW, Call, ClusterView, Parameter, query
from admin_ui.copies import letters, shapes
from admin_ui.lists.record_order import sort_parameter
from admin_ui.params import sort_of, window
from admin_ui.rights import CONSUME
from engine.auth.actions import Action
from engine.auth.rights import AUTHENTICATED
from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from gateway.clusters.registry import clusters_for
from gateway.http.auth.access import authorize_needs
from gateway.http.auth.payloads import check_payloads
from gateway.http.bodies import json_answer
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine
from gateway.services.index.rows import Row

ROWS_MAX = 50


class DeadLetterTopicsView(ClusterView):
    """The topics of dead letters and retries, by their names, with the origin of their oldest messages."""

    read_rights = AUTHENTICATED
    calls = {
        "get": Call(
            "listDeadLetterTopics",
            shapes.DeadLetterTopics,
            (
                Parameter("q", "words that the name has, in any case"),
                sort_parameter(letters.SORTS, "name"),
                *WINDOW,
            ),
            errors=(400,),
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = query(request)
        (offset, limit), sort = window(params, ROWS_MAX), sort_of(params, letters.SORTS, "name")
        viewer, cluster = self.viewer, self.cluster
        rows = await cluster.link.on_loop(
            lambda: letters.topics(viewer, cluster, params.get("q", ""), sort)
        )
        page = rows[offset : offset + limit]
        shown = await self.work(lambda engine: self._shown(engine, page))
        head = {"at": now_ms(), "total": len(rows), "offset": offset, "limit": limit}
        return json_answer({**head, "rows": shown})

    async def _shown(self, engine: Engine, rows: list[Row]) -> list[dict[str, Any]]:
        async def one(row: Row) -> dict[str, Any]:
            name = TopicName.parse(row["name"])
            try:
                # The origin is read from the oldest message, which only a consumer may see.
                needs = [(Action.CONSUME, name)]
                await authorize_needs(needs, self.identity, self.cluster)
                await check_payloads(clusters_for(self.request), self.identity, self.level, [name])
                async with asyncio.timeout(letters.LOOK_S):
                    seen = await letters.oldest(engine, name)
            except (MagnetarError, TimeoutError, OSError) as error:
                seen = {"problem": str(error) or "no answer in time"}
            return letters.topic_row(row) | seen

        return list(await asyncio.gather(*(one(row) for row in rows)))


class DeadLettersView(ClusterView):
    """Groups of a topic's messages by origin, reason and shape, of a bounded part of them."""

    read_rights = CONSUME
    shows_payloads = frozenset({"GET"})
    calls = {
        "get": Call(
            "groupDeadLetters",
            shapes.DeadLettersAnswer,
            (*TOPIC_PATH, Parameter("after", "go on behind an earlier part: its after")),
            errors=(400, 404, 405, 412),
        )
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, after = self.name(where), query(request).get("after", "")
        return json_answer(await self.work(lambda engine: letters.groups(engine, name, after)))
