"""REST of transactions."""

from typing import ClassVar

from django.http import HttpRequest, HttpResponse

from admin_ui import params
from admin_ui.calls import (
    WINDOW,
    Call,
    ClusterView,
    Parameter,
    PreviewedView,
    actor_of,
    checked,
    query,
)
from admin_ui.lists.record_order import sort_parameter
from admin_ui.transactions import selectors, services, shapes
from engine.admin.api.arguments import LONG_MAX
from engine.auth.rights import SUPERUSER
from gateway.http.bodies import json_answer
from gateway.services.source import Ability

_PATH = (
    Parameter("coordinator", "its number, the first of a transaction's id", int, place="path"),
    Parameter("number", "the second of a transaction's id", int, place="path"),
)


class TransactionsView(ClusterView):
    """A window of the transactions that are not ended, and the coordinators."""

    read_rights = SUPERUSER
    calls: ClassVar[dict[str, Call]] = {
        "get": Call(
            "listTransactions",
            shapes.TransactionsAnswer,
            parameters=(
                Parameter("older", "seconds since its begin, at least", int, default=0),
                Parameter("q", "words in owner, topics and subscriptions, in any case"),
                sort_parameter(selectors.SORTS, selectors.DEFAULT_SORT),
                *WINDOW,
            ),
            errors=(400, 403),
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        self.cluster.require(Ability.TRANSACTIONS)
        asked = query(request)
        return json_answer(
            await self.work(lambda engine: selectors.transactions(self.viewer, engine, asked))
        )


class AbortTransactionView(PreviewedView):
    """Abort a transaction. A request is first a ``preview`` of it, then aborts exactly that one by the ``token``: its
    messages are never delivered, and what it acknowledged is delivered again."""

    write_rights = SUPERUSER
    for_operators = frozenset({"POST"})
    calls: ClassVar[dict[str, Call]] = {
        "post": Call(
            "abortTransaction",
            (shapes.AbortTransactionPreview, shapes.AbortTransactionReceipt),
            _PATH,
            body=shapes.AbortTransactionBody,
            errors=(400, 403, 404, 409),
        )
    }

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        self.cluster.require(Ability.TRANSACTIONS)
        user = actor_of(request)
        coordinator, number = (
            params.number(where, name, 0, 0, LONG_MAX) for name in ("coordinator", "number")
        )
        return await self.previewed(
            checked(shapes.AbortTransactionBody, request),
            lambda engine: services.preview(engine, coordinator, number, user),
            lambda engine, token: services.apply(engine, coordinator, number, user, token),
        )
