"""REST of people."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from admin_ui.calls import (
    WINDOW,
    Call,
    ConsoleView,
    Parameter,
    actor_of,
    checked,
    in_thread,
    query,
)
from admin_ui.people import selectors, shapes
from admin_ui.shapes import PersonSessionsShape
from engine.auth.rights import SUPERUSER
from engine.base.errors import Conflict
from gateway.access.issued_tokens import end_tokens_of
from gateway.http.bodies import json_answer, no_content
from gateway.people import accounts
from gateway.people.acting import ActingRole
from gateway.people.sessions import end_session, rows_of

PERSON_PATH = (Parameter("name", place="path"),)
SESSION_PATH = (*PERSON_PATH, Parameter("session_id", place="path"))
OFF = "Authentication is off (authentication_enabled), so that no person can sign in"


class _PeopleView(ConsoleView):
    """Base of the views. Callers that are not identified create no person, who could sign in later."""

    read_rights = write_rights = SUPERUSER
    for_viewer = False
    keeps_body = True

    async def admit(self, request: HttpRequest, served_cluster: str) -> None:
        await super().admit(request, served_cluster)
        off = not settings.IDENTITY.general.authentication_enabled
        if off and self.may_change(request):
            raise Conflict(OFF)


def _roles(body: dict[str, Any]) -> list[ActingRole]:
    return [ActingRole(item["role"], item["level"]) for item in body["roles"]]


class PeopleView(_PeopleView):
    """The people who may sign in."""

    calls = {
        "get": Call(
            "listPeople",
            shapes.PeopleAnswer,
            (Parameter("q", "part of the name"), selectors.ORDER.parameter, *WINDOW),
            errors=(400,),
        ),
        "post": Call(
            "createPerson",
            shapes.NewPersonAnswer,
            body=shapes.PersonBody,
            success=201,
            errors=(400, 409),
        ),
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await in_thread(selectors.people)(query(request)))

    async def post(self, request: HttpRequest) -> HttpResponse:
        body = checked(shapes.PersonBody, request)
        create = in_thread(accounts.create_person)
        user, password = await create(body["name"], body["display_name"], _roles(body))
        answer = {"person": selectors.row(user), "one_time_password": password}
        return json_answer(answer, status=201)


class PersonView(_PeopleView):
    """A person."""

    calls = {
        "get": Call("getPerson", shapes.PersonRow, PERSON_PATH, errors=(404,)),
        "put": Call(
            "changePerson",
            shapes.PersonRow,
            PERSON_PATH,
            body=shapes.PersonChange,
            errors=(400, 404, 409),
        ),
        "delete": Call("deletePerson", parameters=PERSON_PATH, success=204, errors=(404, 409)),
    }

    async def get(self, request: HttpRequest, name: str) -> HttpResponse:
        return json_answer(await in_thread(selectors.person_row)(name))

    async def put(self, request: HttpRequest, name: str) -> HttpResponse:
        body = checked(shapes.PersonChange, request)
        change = in_thread(accounts.change_person)
        await change(name, body["display_name"], _roles(body), active=body["active"])
        return json_answer(await in_thread(selectors.person_row)(name))

    async def delete(self, request: HttpRequest, name: str) -> HttpResponse:
        await in_thread(accounts.delete_person)(name)
        await in_thread(end_tokens_of)(name, actor_of(request))
        return no_content()


class ResetPasswordView(_PeopleView):
    """A password for a person's next sign-in, which ends its sessions."""

    calls = {"post": Call("resetPassword", shapes.OneTimePassword, PERSON_PATH, errors=(404, 409))}

    async def post(self, request: HttpRequest, name: str) -> HttpResponse:
        password = await in_thread(accounts.reset_password)(name)
        return json_answer({"one_time_password": password})


class PersonSessionsView(_PeopleView):
    """The sessions of a person."""

    calls = {
        "get": Call("listSessions", PersonSessionsShape, PERSON_PATH, errors=(404,)),
        "delete": Call("endSessions", parameters=PERSON_PATH, success=204, errors=(404, 409)),
    }

    async def get(self, request: HttpRequest, name: str) -> HttpResponse:
        user = await in_thread(accounts.user_named)(name)
        return json_answer({"rows": await rows_of(user.pk)})

    async def delete(self, request: HttpRequest, name: str) -> HttpResponse:
        await in_thread(accounts.sign_out_everywhere)(name)
        return no_content()


class PersonSessionView(_PeopleView):
    """A session of a person."""

    calls = {"delete": Call("endSession", parameters=SESSION_PATH, success=204, errors=(404, 409))}

    async def delete(self, request: HttpRequest, name: str, session_id: str) -> HttpResponse:
        user = await in_thread(accounts.user_named)(name)
        await end_session(user.pk, session_id)
        return no_content()
