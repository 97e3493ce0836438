"""Functions, sources and sinks created and updated as previewed: a config, with code or a built-in connector."""

import base64
import binascii
from typing import Any

from admin_ui import confirming
from admin_ui.confirming import Json
from admin_ui.functions.services import about
from engine.base.errors import Conflict, InvalidField
from engine.functions.definitions.configs import parse_config
from engine.functions.ports import OnFunction
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine
from gateway.services.functions import deploying, trying
from gateway.services.functions.deploying import CodeGiven, Deployment
from gateway.services.functions.package_limits import limits

KIND = "function-deploy"


async def preview(engine: Engine, of: OnFunction, body: Json, user: str) -> Json:
    """Return the config before and after, and the token that confirms the deployment. Raises Refusals."""
    given: Json = {
        name: body[name] for name in ("config", "code", "file_name", "url") if name in body
    }
    rehearsal = await deploying.rehearse(_deployment(engine, of, given))
    content = about(of, user) | {"version": rehearsal.version, "given": given}
    is_change = rehearsal.before != rehearsal.after or "code" in given or "url" in given
    return {
        "token": confirming.sign(engine.served, KIND, content) if is_change else None,
        "at": now_ms(),
        "before": rehearsal.before,
        "after": rehearsal.after,
        "is_change": is_change,
        "with_code": "code" in given or "url" in given,
    }


async def apply(engine: Engine, of: OnFunction, user: str, token: str) -> Json:
    """Create or update what was previewed. Raises Conflict when it was changed since, Refusals."""
    content = confirming.read(engine.served, KIND, token, about(of, user))
    deployment = _deployment(engine, of, content["given"])
    if (await deploying.rehearse(deployment)).version != content["version"]:
        raise Conflict(f"The {of.component} was changed since the preview: request a new one")
    is_new = content["version"] < 0
    await (deploying.create if is_new else deploying.update)(deployment)
    return {"at": now_ms(), "created": is_new}


async def try_on(engine: Engine, of: OnFunction, body: Json) -> Json:
    """Return what the function does with the last messages of its inputs. Raises Refusals."""
    given: Json = {
        name: body[name] for name in ("config", "code", "file_name", "url") if name in body
    }
    return await trying.try_function(_deployment(engine, of, given), body["messages"])


def _deployment(engine: Engine, of: OnFunction, given: Json) -> Deployment:
    """Return the deployment that a body asks for. Raises InvalidField, InvalidRequest."""
    try:
        content = base64.b64decode(given.get("code", ""), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidField("code", "must be base64") from error
    code = CodeGiven(content, given.get("file_name", ""), given.get("url", ""))
    config: dict[str, Any] = parse_config(of.component, given["config"])
    return Deployment(engine, of, config, code, limits())
