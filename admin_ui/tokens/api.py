"""REST of issued tokens."""

from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from admin_ui.calls import WINDOW, Call, ConsoleView, Parameter, actor_of, checked, in_thread, query
from admin_ui.lists.record_order import RecordOrder
from admin_ui.params import Params, choice, window
from admin_ui.tokens import services, shapes
from engine.auth.rights import AUTHENTICATED, SUPERUSER
from engine.base.errors import Forbidden, InvalidField, NotFound
from gateway.access.issued_tokens import NewToken, UsedTokens, issue, listed_tokens, obstacle
from gateway.access.models import IssuedToken
from gateway.clusters.registry import clusters_for
from gateway.http.bodies import json_answer
from gateway.http.view import CHANGING_METHODS
from gateway.people.acting import Acting
from gateway.sign_in import AccessLevel

TOKEN_PATH = (Parameter("token_id", kind=int, place="path"),)
KIND = Parameter("kind", enum=shapes.TOKEN_KINDS)
ORDER = RecordOrder(
    {
        **{name: name for name in ("name", "role", "person", "level")},
        "created_at": "pk",
        "expires_at": "expires_at_ms",
        "used_at": "used_at_ms",
    },
    "-created_at",
    nullable=("expires_at_ms", "used_at_ms"),
)
TEXT = Parameter("q", "part of name, role or person, in any case")
FILTERS = (TEXT, Parameter("role", "exact"), KIND)


class _TokensBase(ConsoleView):
    """Base of the views."""

    for_viewer = False
    keeps_body = True

    async def listed(self, request: HttpRequest, **mine: str) -> HttpResponse:
        """Answer a window of the tokens that pass the filters."""
        params = query(request)
        (offset, limit), sort = window(params), ORDER.sort_of(params)
        # What was used at this gateway is shown at once.
        await in_thread(clusters_for(request).part(UsedTokens).write)()
        records = IssuedToken.objects.filter(_chosen(params), **mine)
        rows = await in_thread(ORDER.window)(records, sort, offset, limit)
        return json_answer(
            {
                "obstacle": obstacle(),
                "total": await records.acount(),
                "offset": offset,
                "limit": limit,
                "rows": listed_tokens(rows),
            }
        )

    async def issued(self, request: HttpRequest, new: NewToken) -> HttpResponse:
        """Answer a new token, which no other answer has again."""
        token, record = await in_thread(issue)(new, actor_of(request))
        return json_answer({"token": token, "row": listed_tokens([record])[0]}, status=201)

    async def revoked(self, request: HttpRequest, record: IssuedToken | None) -> HttpResponse:
        """Answer a token that was revoked at all clusters of this gateway."""
        if record is None:
            raise NotFound("There is no such token")
        await services.revoke(clusters_for(request), record, actor_of(request))
        return json_answer(listed_tokens([record])[0])


def _chosen(params: Params) -> Q:
    chosen = Q()
    if text := params.get("q"):
        chosen &= Q(name__icontains=text) | Q(role__icontains=text) | Q(person__icontains=text)
    if role := params.get("role"):
        chosen &= Q(role=role)
    if kind := choice(params, "kind", shapes.TOKEN_KINDS):
        chosen &= Q(person="") if kind == "role" else ~Q(person="")
    return chosen


class TokensView(_TokensBase):
    """All issued tokens, and new ones of roles."""

    read_rights = write_rights = SUPERUSER
    calls = {
        "get": Call(
            "listTokens",
            shapes.TokensAnswer,
            (*FILTERS, ORDER.parameter, *WINDOW),
            errors=(400, 403),
        ),
        "post": Call(
            "issueToken",
            shapes.NewTokenAnswer,
            body=shapes.NewTokenBody,
            success=201,
            errors=(400, 403, 422),
        ),
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        return await self.listed(request)

    async def post(self, request: HttpRequest) -> HttpResponse:
        body = checked(shapes.NewTokenBody, request)
        if body["role"] != body["role"].strip():
            raise InvalidField("role", "must not begin or end with a blank")
        return await self.issued(request, NewToken(**body, person=""))


class TokenView(_TokensBase):
    """A token, which is revoked. Brokers and gateways refuse it within a second, and close its connections."""

    write_rights = SUPERUSER
    calls = {"delete": Call("revokeToken", shapes.TokenRow, TOKEN_PATH, errors=(403, 404, 409))}

    async def delete(self, request: HttpRequest, token_id: int) -> HttpResponse:
        record = await IssuedToken.objects.filter(pk=token_id).afirst()
        return await self.revoked(request, record)


class _OwnTokensBase(_TokensBase):
    """Base of the views of a session's own tokens, for people of every level."""

    for_readers = CHANGING_METHODS

    def acting(self, request: HttpRequest) -> Acting:
        """Return how the session acts. Raises Forbidden for other callers: a token must not make tokens."""
        acting: Acting | None = request.acting  # type: ignore[attr-defined]
        if acting is None:
            raise Forbidden("Personal tokens belong to people who are signed in")
        return acting

    def person(self, request: HttpRequest) -> str:
        """Return the name of the session's person. Raises as ``acting``."""
        self.acting(request)
        return request.user.get_username()


class OwnTokensView(_OwnTokensBase):
    """The personal tokens of the session's person, and new ones of its acting role."""

    read_rights = write_rights = AUTHENTICATED
    calls = {
        "get": Call(
            "listOwnTokens",
            shapes.TokensAnswer,
            (TEXT, ORDER.parameter, *WINDOW),
            errors=(400, 403),
        ),
        "post": Call(
            "issueOwnToken",
            shapes.NewTokenAnswer,
            body=shapes.OwnTokenBody,
            success=201,
            errors=(400, 403, 422),
        ),
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        return await self.listed(request, person=self.person(request))

    async def post(self, request: HttpRequest) -> HttpResponse:
        person, acting = self.person(request), self.acting(request)
        body: dict[str, Any] = checked(shapes.OwnTokenBody, request)
        if acting.viewing_as:
            raise Forbidden("End the view as another role first: a token would have that role")
        if not AccessLevel(acting.level).includes(AccessLevel(body["level"])):
            raise InvalidField("level", f"must be at most your own, {acting.level}")
        new = NewToken(**body, role=acting.role, person=person, person_id=request.user.pk or 0)
        return await self.issued(request, new)


class OwnTokenView(_OwnTokensBase):
    """A personal token of the session's person, which is revoked."""

    write_rights = AUTHENTICATED
    calls = {"delete": Call("revokeOwnToken", shapes.TokenRow, TOKEN_PATH, errors=(403, 404, 409))}

    async def delete(self, request: HttpRequest, token_id: int) -> HttpResponse:
        person = self.person(request)
        record = await IssuedToken.objects.filter(pk=token_id, person=person).afirst()
        return await self.revoked(request, record)
