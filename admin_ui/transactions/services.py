"""The abort of a transaction: its preview, and exactly that transaction aborted."""

from admin_ui import confirming
from admin_ui.confirming import Json
from admin_ui.transactions import selectors
from engine.admin.api.transactions import ABORT_TRANSACTION, OnTransaction
from engine.base.errors import Conflict
from gateway.services import transactions as of_cluster
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

KIND = "transaction-abort"


async def preview(engine: Engine, coordinator: int, number: int, user: str) -> Json:
    """Return the transaction, and the token that confirms its abort. Raises NotFound when it has ended."""
    shown = selectors.row(await of_cluster.metadata(engine, coordinator, number))
    content = _about(coordinator, number, user) | {"seen": _seen(shown)}
    return {
        "token": confirming.sign(engine.served, KIND, content),
        "at": now_ms(),
        "transaction": shown,
    }


async def apply(engine: Engine, coordinator: int, number: int, user: str, token: str) -> Json:
    """Abort the transaction. Raises NotFound when it has ended, Conflict when it is being committed, or has to do with
    more topics or subscriptions than were shown."""
    content = confirming.read(engine.served, KIND, token, _about(coordinator, number, user))
    shown = selectors.row(await of_cluster.metadata(engine, coordinator, number))
    if content["seen"] != _seen(shown):
        raise Conflict("The transaction changed since the preview: request a new one")
    topic = of_cluster.partition_of(coordinator)
    await engine.call(ABORT_TRANSACTION, OnTransaction(topic, coordinator, number))
    return {"at": now_ms(), "transaction": shown}


def _about(coordinator: int, number: int, user: str) -> Json:
    return {"coordinator": coordinator, "number": number, "user": user}


def _seen(shown: Json) -> list[object]:
    return [shown["status"], len(shown["topics"]), len(shown["subscriptions"])]
