"""REST of the caller's own session."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware, get_token, rotate_token

from admin_ui.calls import Call, ConsoleView, Parameter, checked, http_url, in_thread
from admin_ui.session import selectors, shapes
from admin_ui.shapes import PersonSessionsShape
from engine.auth.rights import AUTHENTICATED, PUBLIC
from engine.base.errors import Conflict, Forbidden
from gateway.clusters.registry import clusters_for
from gateway.http.auth.identity import enforce_csrf
from gateway.http.bodies import json_answer, no_content
from gateway.http.view import CHANGING_METHODS
from gateway.people import provider_people, set_up, signing_in
from gateway.people.acting import Acting
from gateway.people.password_work import PasswordWork
from gateway.people.provider_client import ProviderAwayError, ProviderRefusedError, Providers
from gateway.people.sessions import end_session, rows_of

SESSION_PATH = (Parameter("session_id", place="path"),)
OFF = "Authentication is off (authentication_enabled): the console is open without sign-in"
NO_SESSION = "This call is for a session of the console; sign in first"


class _OwnView(ConsoleView):
    """Base of the views: about the caller alone, whatever its level is."""

    for_viewer = False
    for_readers = CHANGING_METHODS

    def acting(self, request: HttpRequest) -> Acting:
        """Return how the caller's session acts. Raises Forbidden for a caller by other credentials."""
        acting: Acting | None = request.acting  # type: ignore[attr-defined]
        if acting is None:
            raise Forbidden(NO_SESSION)
        return acting


class _DoorView(_OwnView):
    """Base of the views that begin a session. The audit log records a session that began, not each attempt: strangers
    could push other entries out."""

    read_rights = PUBLIC
    reading_methods = frozenset({"POST"})

    async def begin(self, request: HttpRequest, work: Callable[..., Any], *given: str) -> Any:
        """Answer with the session that ``work`` begins, or with why it begins none."""
        if not settings.IDENTITY.general.authentication_enabled:
            raise Conflict(OFF)
        # A page of another site could otherwise sign the browser in as another person.
        enforce_csrf(request)
        try:
            user = await clusters_for(request).part(PasswordWork).run(work, request, *given)
        except signing_in.WrongCredentialsError as error:
            return json_answer({"reason": str(error)}, status=401)
        except signing_in.TooManyAttemptsError as error:
            return _too_many(error)
        except signing_in.PasswordChangeNeededError as error:
            return json_answer({"reason": str(error), "password_change_needed": True}, status=409)
        record_session(request, user)
        return await _changed(request)


def record_session(request: HttpRequest, user: Any) -> None:
    """Let the audit log record that a session of a user began, without what the request showed for it."""

    async def signed_in() -> Any:
        return user

    request.auser = signed_in
    request.META["QUERY_STRING"] = ""
    request.identified = None  # type: ignore[attr-defined]
    request.recorded = True  # type: ignore[attr-defined]


async def _changed(request: HttpRequest) -> HttpResponse:
    """Return the answer with a session whose key was replaced, and a new CSRF token."""
    request.identified = None  # type: ignore[attr-defined]
    # The cookie of the request is still the old one, and was checked before.
    request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
    answer = json_answer(await selectors.session(request))
    rotate_token(request)
    return with_cookies(request, answer)


def with_token(request: HttpRequest, answer: HttpResponse) -> HttpResponse:
    """Set the cookie of the CSRF token: the one that the request has shown, for longer, or a new one."""
    csrf = CsrfViewMiddleware(lambda _: answer)
    if "CSRF_COOKIE" not in request.META:
        csrf.process_request(request)
    get_token(request)
    csrf.process_response(request, answer)
    return answer


def with_cookies(request: HttpRequest, answer: HttpResponse) -> HttpResponse:
    """Set the cookies of a session that began or has a new key, and of its CSRF token."""
    with_token(request, answer)
    session = getattr(request, "session", None)
    if session is not None and session.session_key and not session.is_empty():
        answer.set_cookie(
            settings.SESSION_COOKIE_NAME,
            session.session_key,
            max_age=session.get_expiry_age(),
            httponly=True,
            secure=request.is_secure(),
            samesite="Strict",
        )
    return answer


def _too_many(error: signing_in.TooManyAttemptsError) -> HttpResponse:
    body = {"reason": str(error), "retry_after_s": error.retry_after_s}
    answer = json_answer(body, status=429)
    answer["Retry-After"] = str(error.retry_after_s)
    return answer


class SessionView(_OwnView):
    """The caller, and the ways to sign in."""

    read_rights = PUBLIC
    calls = {"get": Call("getSession", shapes.SessionAnswer, errors=(401,))}

    async def get(self, request: HttpRequest) -> HttpResponse:
        return with_token(request, json_answer(await selectors.session(request)))


class SignInView(_DoorView):
    """Begin a session by name and password."""

    calls = {
        "post": Call(
            "signIn",
            shapes.SessionAnswer,
            body=shapes.SignInBody,
            errors=(400, 401, 403, 422, 429),
            refusals=shapes.SignInRefusal,
        )
    }

    async def post(self, request: HttpRequest) -> HttpResponse:
        if not settings.SIGN_IN.password_sign_in:
            raise Forbidden("Sign-in by a password is off (password_sign_in)")
        body = checked(shapes.SignInBody, request)
        given = (body["name"], body["password"], body["new_password"])
        answer: HttpResponse = await self.begin(request, signing_in.sign_in, *given)
        return answer


class SetUpView(_DoorView):
    """Create the first person, a superuser, with the one-time code of the gateway, and begin its session."""

    calls = {
        "post": Call(
            "setUp",
            shapes.SessionAnswer,
            body=shapes.SetUpBody,
            errors=(400, 403, 422, 429),
            refusals=shapes.SignInRefusal,
        )
    }

    async def post(self, request: HttpRequest) -> HttpResponse:
        body = checked(shapes.SetUpBody, request)
        given = (body["code"], body["name"], body["password"])
        answer: HttpResponse = await self.begin(request, set_up.complete, *given)
        return answer


class SignOutView(_OwnView):
    """End the caller's session."""

    write_rights = AUTHENTICATED
    calls = {"post": Call("signOut", shapes.SignOutAnswer, errors=(401, 403))}

    async def post(self, request: HttpRequest) -> HttpResponse:
        self.acting(request)
        provider = request.session.get(provider_people.PROVIDER, "")
        id_token = request.session.get(provider_people.ID_TOKEN, "")
        await in_thread(signing_in.sign_out)(request)
        href = await self._end_at(request, provider, id_token) if provider else None
        return json_answer({"end_session_href": href})

    async def _end_at(self, request: HttpRequest, provider: str, id_token: str) -> str | None:
        """Return where the session at a provider ends; None for a provider that does not say so."""
        providers = clusters_for(request).part(Providers)
        client = providers.get(provider)
        if client is None:
            return None
        back = f"{http_url(request)}/sign-in"
        try:
            return await providers.ask(lambda: client.end_session_url(id_token, back))
        except (ProviderAwayError, ProviderRefusedError):
            return None


class ActingRoleView(_OwnView):
    """Act as another of the session's roles."""

    write_rights = AUTHENTICATED
    keeps_body = True
    calls = {
        "post": Call(
            "setActingRole",
            shapes.SessionAnswer,
            body=shapes.ActingRoleBody,
            errors=(400, 401, 403),
        )
    }

    async def post(self, request: HttpRequest) -> HttpResponse:
        self.acting(request)
        role = checked(shapes.ActingRoleBody, request)["role"]
        await in_thread(signing_in.act_as)(request, role)
        return await _changed(request)


class ViewAsView(_OwnView):
    """Look at the console as a role does, which superusers may."""

    write_rights = AUTHENTICATED
    keeps_body = True
    calls = {
        "post": Call("viewAs", shapes.SessionAnswer, body=shapes.ViewAsBody, errors=(400, 401, 403))
    }

    async def post(self, request: HttpRequest) -> HttpResponse:
        role = checked(shapes.ViewAsBody, request)["role"]
        if not self.acting(request).superuser:
            raise Forbidden("Looking as another role needs a superuser with level full")
        await in_thread(signing_in.view_as)(request, role)
        return await _changed(request)


class PasswordView(_OwnView):
    """Change the caller's password, which ends its other sessions."""

    write_rights = AUTHENTICATED
    calls = {
        "post": Call(
            "changePassword",
            body=shapes.PasswordBody,
            success=204,
            errors=(400, 401, 403, 422, 429),
        )
    }

    async def post(self, request: HttpRequest) -> HttpResponse:
        self.acting(request)
        body = checked(shapes.PasswordBody, request)
        threads = clusters_for(request).part(PasswordWork)
        change = signing_in.change_password
        try:
            await threads.run(change, request, body["current"], body["new"])
        except signing_in.TooManyAttemptsError as error:
            return _too_many(error)
        rotate_token(request)
        return with_cookies(request, no_content())


class SessionsView(_OwnView):
    """The sessions of the caller."""

    read_rights = AUTHENTICATED
    calls = {"get": Call("listOwnSessions", PersonSessionsShape, errors=(401, 403))}

    async def get(self, request: HttpRequest) -> HttpResponse:
        self.acting(request)
        key = request.session.session_key
        return json_answer({"rows": await rows_of(request.user.pk or 0, key)})


class OwnSessionView(_OwnView):
    """A session of the caller."""

    write_rights = AUTHENTICATED
    calls = {
        "delete": Call(
            "endOwnSession", parameters=SESSION_PATH, success=204, errors=(401, 403, 404)
        )
    }

    async def delete(self, request: HttpRequest, session_id: str) -> HttpResponse:
        self.acting(request)
        await end_session(request.user.pk or 0, session_id)
        return no_content()
