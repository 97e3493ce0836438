"""REST of tiered storage."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import TOPIC_PATH, Call, ClusterView, Parameter, checked, query
from admin_ui.params import topic_name
from admin_ui.rights import ADMIN, LOOKUP
from admin_ui.tiers import services, shapes
from engine.auth.rights import SUPERUSER
from engine.base.errors import InvalidField
from gateway.http.bodies import json_answer

THRESHOLDS = (
    Parameter("threshold_bytes", "bytes that would stay on bookies; -1: no limit", kind=int),
    Parameter("threshold_s", "age from which ledgers would be moved; -1: never", kind=int),
)


def _number(params: dict[str, str], name: str) -> int | None:
    """Return a threshold, None without one. Raises InvalidField."""
    text = params.get(name)
    if not text:
        return None
    if not text.removeprefix("-").isdecimal() or not -1 <= int(text) < 1 << 53:
        raise InvalidField(name, "expected a whole number from -1 on")
    return int(text)


class TopicTiersView(ClusterView):
    """The places of a topic's ledgers, and those which would be moved to tiered storage. The topic is loaded for it."""

    read_rights = LOOKUP
    calls = {
        "get": Call(
            "getTopicTiers",
            shapes.TiersAnswer,
            (*TOPIC_PATH, *THRESHOLDS),
            errors=(400, 403, 404, 405, 412),
        )
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, params = self.name(where), dict(query(request))
        size, age = (_number(params, parameter.name) for parameter in THRESHOLDS)
        return json_answer(await self.work(lambda engine: services.tiers(engine, name, size, age)))


class TopicOffloadView(ClusterView):
    """Start of moving closed ledgers of a topic to tiered storage."""

    write_rights = ADMIN
    calls = {
        "post": Call(
            "offloadTopic",
            shapes.OffloadAnswer,
            TOPIC_PATH,
            body=shapes.OffloadBody,
            errors=(400, 403, 404, 405, 409, 412),
        )
    }

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = topic_name(**where)
        keep_bytes = checked(shapes.OffloadBody, request)["keep_bytes"]
        return json_answer(
            await self.work(lambda engine: services.offload(engine, name, keep_bytes))
        )


class OrphansView(ClusterView):
    """A scan of the buckets of tiered storage for objects that no topic names, which removes them on request."""

    write_rights = SUPERUSER
    calls = {
        "post": Call(
            "scanOrphans", shapes.OrphansAnswer, body=shapes.OrphansBody, errors=(400, 403)
        )
    }

    async def post(self, request: HttpRequest) -> HttpResponse:
        body = checked(shapes.OrphansBody, request)
        return json_answer(
            await self.work(
                lambda engine: services.orphans(engine, remove=body["remove"], age_s=body["age_s"])
            )
        )
