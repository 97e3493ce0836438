"""Changes of functions, sources and sinks: started, stopped, restarted and deleted as previewed."""

from admin_ui import confirming
from admin_ui.confirming import Json
from admin_ui.functions.selectors import row
from engine.base.errors import Conflict
from engine.functions.ports import OnFunction, OnInstances
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

RUN, DELETE = "function-run", "function-delete"
VERBS = ("start", "stop", "restart")


async def preview_run(engine: Engine, of: OnInstances, verb: str, user: str) -> Json:
    """Return what an action would be about, and the token that confirms it. Raises Refusals."""
    shown, instances = await _instances(engine, of)
    content = about(of, user) | {"verb": verb, "instance": of.instance}
    return {
        "token": confirming.sign(engine.served, RUN, content),
        "at": now_ms(),
        "function": shown,
        "instances": instances,
        "verb": verb,
    }


async def run(engine: Engine, of: OnFunction, user: str, token: str) -> Json:
    """Start, stop or restart the instances of the preview. Raises Refusals."""
    content = confirming.read(engine.served, RUN, token, about(of, user))
    instances = OnInstances(of.component, of.namespace, of.name, content["instance"])
    service = engine.functions
    match content["verb"]:
        case "start":
            await service.start(instances)
        case "stop":
            await service.stop(instances)
        case _:
            await service.restart(instances)
    return {"at": now_ms(), "verb": content["verb"], "instance": content["instance"]}


async def preview_delete(engine: Engine, of: OnFunction, user: str) -> Json:
    """Return what a deletion would remove, and the token that confirms it. Raises Refusals."""
    metadata = await engine.functions.metadata(of)
    shown, instances = await _instances(engine, _all(of))
    details = metadata.functionDetails
    cleans = details.source.cleanupSubscription
    subscription = details.source.subscriptionName or f"{of.namespace}/{of.name}"
    content = about(of, user) | {"version": metadata.version}
    return {
        "token": confirming.sign(engine.served, DELETE, content),
        "at": now_ms(),
        "function": shown,
        "instances": instances,
        "subscription": subscription if shown["inputs"] else None,
        "deletes_subscription": bool(cleans and shown["inputs"]),
    }


async def delete(engine: Engine, of: OnFunction, user: str, token: str) -> Json:
    """Delete what was previewed. Raises Conflict when it was updated since, Refusals."""
    content = confirming.read(engine.served, DELETE, token, about(of, user))
    metadata = await engine.functions.metadata(of)
    if metadata.version != content["version"]:
        raise Conflict(f"The {of.component} was updated since the preview: request a new one")
    await engine.functions.delete(of)
    return {"at": now_ms()}


async def _instances(engine: Engine, of: OnInstances) -> tuple[Json, int]:
    """Return the row of a function, and how many instances a call is about."""
    metadata = await engine.functions.metadata(of)
    shown = row(metadata, {}, {})
    if of.instance is not None:
        await engine.functions.status(of)  # refuses a number that there is not
    return shown, shown["instances"] if of.instance is None else 1


def _all(of: OnFunction) -> OnInstances:
    return OnInstances(of.component, of.namespace, of.name)


def about(of: OnFunction, user: str) -> Json:
    """Return what binds a token to the object and the user of its preview."""
    return {"component": of.component, "name": f"{of.namespace}/{of.name}", "user": user}
