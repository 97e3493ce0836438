"""REST of change sets. A set is for its owner, by the role that it was made for, and for superusers."""

from functools import partial

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import (
    WINDOW,
    Call,
    ClusterView,
    Parameter,
    actor_of,
    checked,
    in_thread,
    query,
)
from admin_ui.changes import selectors, services, shapes
from admin_ui.changes.change_kinds import KINDS, checked_arguments
from admin_ui.confirming import Json
from admin_ui.models import ChangeSet, ChangeState, ItemState
from engine.auth.rights import AUTHENTICATED
from engine.base.errors import InvalidField, InvalidNameError, Unprocessable
from engine.base.names import TopicName
from gateway.http.bodies import json_answer
from gateway.jobs import background

MODULE = "admin_ui.changes.working"
SET_PATH = (Parameter("set_id", place="path"),)
Q = Parameter("q", "part of the topic's or subscription's name, in any case")
STATE = Parameter("state", "only objects in this state", enum=tuple(ItemState.values))


class _SetView(ClusterView):
    """Base of the views of one set. What its owner may do to each object is judged when that is done, by the worker."""

    read_rights = write_rights = AUTHENTICATED

    async def known(self, set_id: str) -> ChangeSet:
        """Return a set that the caller may see. Raises NotFound."""
        known: ChangeSet = await in_thread(services.get)(set_id=set_id)
        is_here = known.cluster == self.cluster.name
        if not is_here or not (known.role == self.principal or await self.is_superuser()):
            raise services.no_set(set_id)
        return known

    async def detail(self, known: ChangeSet) -> HttpResponse:
        """Return the answer with a set."""
        return json_answer(await in_thread(selectors.detail)(known))


class ChangeSetsView(ClusterView):
    """The change sets of a cluster."""

    read_rights = write_rights = AUTHENTICATED
    calls = {
        "get": Call(
            "listChangeSets",
            shapes.ChangeSetsAnswer,
            (
                Parameter("state", enum=tuple(ChangeState.values)),
                Parameter("kind", enum=tuple(KINDS)),
                selectors.ORDER.parameter,
                *WINDOW,
            ),
            errors=(400,),
        ),
        "post": Call(
            "createChangeSet",
            shapes.ChangeSetDetail,
            body=shapes.NewChangeSet,
            success=201,
            errors=(400, 403, 422),
        ),
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        """Answer the sets that the caller may see."""
        role = None if await self.is_superuser() else self.principal
        listed = in_thread(selectors.listed)
        return json_answer(await listed(self.cluster.name, role, query(request)))

    async def post(self, request: HttpRequest) -> HttpResponse:
        """Create a set, which a worker then previews: nothing is changed before its ``digest`` is confirmed."""
        body = checked(shapes.NewChangeSet, request)
        arguments = checked_arguments(body["kind"], body)
        viewer, cluster = self.viewer, self.cluster
        given = body.get("query")
        if given is not None:
            targets = await cluster.link.on_loop(
                lambda: selectors.chosen_objects(viewer, cluster, body["kind"], given)
            )
        else:
            targets = _named(body["objects"])
        create = partial(
            services.create,
            targets=[(*target, None) for target in targets],
            cluster=cluster.name,
            kind=body["kind"],
            arguments=arguments,
            query=given,
            role=self.principal,
            created_by=actor_of(request),
            address=(request.META.get("REMOTE_ADDR") or "")[:64],
        )
        made: ChangeSet = await in_thread(create)()
        background.request(MODULE, made.id)
        return json_answer(await in_thread(selectors.detail)(made), status=201)


def _named(objects: list[Json]) -> list[tuple[str, str]]:
    """Return the given objects. Raises InvalidField for one that is given twice, Unprocessable for none."""
    targets = [(_full(item["topic"]), item.get("subscription", "")) for item in objects]
    if not targets:
        raise Unprocessable("objects: at least one must be given")
    if len(set(targets)) < len(targets):
        raise InvalidField("objects", "each may be given once")
    return targets


def _full(topic: str) -> str:
    """Return the full name of a topic; a text that is no name stays, and its preview says why it is refused."""
    try:
        return str(TopicName.parse(topic))
    except InvalidNameError:
        return topic


class ChangeSetView(_SetView):
    calls = {"get": Call("getChangeSet", shapes.ChangeSetDetail, SET_PATH, errors=(404,))}

    async def get(self, request: HttpRequest, set_id: str) -> HttpResponse:
        """Answer a set with its progress and what it does in all."""
        return await self.detail(await self.known(set_id))


class ChangeSetItemsView(_SetView):
    calls = {
        "get": Call(
            "listChangeItems",
            shapes.ChangeItemsAnswer,
            (*SET_PATH, Q, STATE, selectors.ITEM_ORDER.parameter, *WINDOW),
            errors=(400, 404),
        )
    }

    async def get(self, request: HttpRequest, set_id: str) -> HttpResponse:
        """Answer a window of the objects of a set, each with what would be done, what was, or why not."""
        known = await self.known(set_id)
        return json_answer(await in_thread(selectors.items)(known.id, query(request)))


class ConfirmView(_SetView):
    calls = {
        "post": Call(
            "confirmChangeSet",
            shapes.ChangeSetDetail,
            SET_PATH,
            body=shapes.ConfirmBody,
            errors=(400, 403, 404, 409),
        )
    }

    async def post(self, request: HttpRequest, set_id: str) -> HttpResponse:
        """Let exactly what was previewed be made; a set that was stopped is continued."""
        known = await self.known(set_id)
        digest = checked(shapes.ConfirmBody, request)["digest"]
        confirmed = await in_thread(services.confirm)(set_id=known.id, digest=digest)
        background.request(MODULE, known.id)
        return await self.detail(confirmed)


class StopView(_SetView):
    calls = {
        "post": Call("stopChangeSet", shapes.ChangeSetDetail, SET_PATH, errors=(403, 404)),
    }

    async def post(self, request: HttpRequest, set_id: str) -> HttpResponse:
        """Stop a set that runs, after the objects that are being changed; cancel one that is not confirmed."""
        known = await self.known(set_id)
        return await self.detail(await in_thread(services.stop)(set_id=known.id))


class RetryView(_SetView):
    calls = {
        "post": Call("retryChangeSet", shapes.ChangeSetDetail, SET_PATH, errors=(403, 404, 409)),
    }

    async def post(self, request: HttpRequest, set_id: str) -> HttpResponse:
        """Preview again what was refused, what failed, and what is not known to be done; it is then to be confirmed
        again."""
        known = await self.known(set_id)
        again = await in_thread(services.retry)(set_id=known.id)
        background.request(MODULE, known.id)
        return await self.detail(again)
