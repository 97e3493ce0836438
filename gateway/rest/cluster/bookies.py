"""``/admin/v2/bookies``."""

from django.http import HttpRequest, HttpResponse

from engine.auth.rights import SUPERUSER
from engine.tenancy.resources.racks import (
    all_bookies,
    delete_rack,
    get_rack,
    get_racks,
    set_rack,
)
from gateway.http.bodies import json_answer, no_content, object_body
from gateway.rest.base import AdminResource


class BookiesResource(AdminResource):
    """The ids of all bookies that ever registered."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        bookies = await self.work(lambda engine: all_bookies(engine.store))
        return json_answer({"bookies": [{"bookieId": bookie} for bookie in bookies]})


class RacksResource(AdminResource):
    """The racks that operators set for all bookies, by group."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(lambda engine: get_racks(engine.store)))


class RackResource(AdminResource):
    """The rack that operators set for one bookie; the query names its group."""

    read_rights = write_rights = SUPERUSER

    async def get(self, request: HttpRequest, bookie: str) -> HttpResponse:
        return json_answer(await self.work(lambda engine: get_rack(engine.store, bookie)))

    async def post(self, request: HttpRequest, bookie: str) -> HttpResponse:
        given, group = object_body(request), request.GET.get("group")
        await self.work(lambda engine: set_rack(engine.store, bookie, group, given))
        return no_content()

    async def delete(self, request: HttpRequest, bookie: str) -> HttpResponse:
        await self.work(lambda engine: delete_rack(engine.store, bookie))
        return no_content()


ROUTES: list[tuple[str, type[AdminResource]]] = [
    ("/admin/v2/bookies/all", BookiesResource),
    ("/admin/v2/bookies/racks-info", RacksResource),
    ("/admin/v2/bookies/racks-info/{bookie}", RackResource),
]
