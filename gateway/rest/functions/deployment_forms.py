"""Requests that create or update functions, sources and sinks: forms as Pulsar's tools send them, or JSON alone.

A form has the config in a part of type ``application/json`` and the code in a part ``data`` or ``url``. JSON alone is
the config with ``packageUrl`` beside its fields.
"""

import json
from typing import Any, NamedTuple

from django.http import HttpRequest
from rest_framework import exceptions

from engine.base.errors import InvalidField, InvalidRequest
from engine.functions.definitions.config_fields import JsonConfig
from engine.functions.definitions.configs import Kind, parse_config
from gateway.http.bodies import object_body
from gateway.http.forms.multipart import Part, is_form, parts_of
from gateway.http.forms.uploads import form_body
from gateway.services.functions.deploying import CodeGiven
from gateway.services.functions.package_limits import limits

JSON_BYTES_MAX = 1 << 20
PACKAGE_URL = "packageUrl"


class DeploymentForm(NamedTuple):
    config: JsonConfig
    code: CodeGiven
    update_auth_data: bool = False


async def deployment_form(request: HttpRequest, kind: Kind) -> DeploymentForm:
    """Parse the request. Raises InvalidRequest with Apache's texts, UnsupportedMediaType."""
    content_type = request.META.get("CONTENT_TYPE", "")
    if not is_form(content_type):
        body = object_body(request) or {}
        url = body.get(PACKAGE_URL) or ""
        if not isinstance(url, str):
            raise InvalidField(PACKAGE_URL, "must be a string")
        return DeploymentForm(parse_config(kind, body or None), CodeGiven(url=url))
    parts = parts_of(await form_body(request), content_type)
    _check_type(parts.get(f"{kind}Config"), kind)
    config = parse_config(kind, json_part(parts, f"{kind}Config"))
    options = json_part(parts, "updateOptions") or {}
    if not isinstance(options, dict):
        raise InvalidField("updateOptions", "must be a JSON object")
    return DeploymentForm(config, code_of(parts), options.get("updateAuthData") is True)


def _check_type(config: Part | None, kind: Kind) -> None:
    """Raise InvalidRequest for a config of another type: Apache takes it for absent, which its sender cannot see."""
    if config is not None and config.content_type != "application/json":
        given = config.content_type or "none"
        raise InvalidRequest(
            f"{kind.capitalize()} config is not provided: the part {config.name} must have the type application/json, "
            f"not {given}"
        )


def code_of(parts: dict[str, Part]) -> CodeGiven:
    """Return the code of a form: the parts ``data`` and ``url``."""
    data, url = parts.get("data"), parts.get("url")
    return CodeGiven(
        data.content if data is not None else b"",
        data.file_name if data is not None else "",
        url.text.strip() if url is not None else "",
    )


def json_part(parts: dict[str, Part], name: str) -> Any:
    """Return the JSON value of a part; None without the part, or when its type is not JSON's. Raises InvalidRequest."""
    part = parts.get(name)
    if part is None or part.content_type != "application/json":
        return None
    if len(part.content) > JSON_BYTES_MAX:
        raise InvalidField(name, f"must have at most {JSON_BYTES_MAX} bytes")
    try:
        return json.loads(part.text)
    except (ValueError, RecursionError) as error:
        raise InvalidField(name, "is not JSON") from error


async def form_parts(request: HttpRequest) -> dict[str, Part]:
    """Return the parts of a form. Raises UnsupportedMediaType, InvalidRequest."""
    content_type = request.META.get("CONTENT_TYPE", "")
    if not is_form(content_type):
        raise exceptions.UnsupportedMediaType(content_type)
    return parts_of(await form_body(request), content_type)


def check_size(part: Part) -> None:
    """Raise InvalidField for a file with more bytes than a package may have."""
    bytes_max = limits().bytes_max
    if len(part.content) > bytes_max:
        raise InvalidField(part.name, f"must have at most {bytes_max} bytes (package_bytes_max)")


def required_part(parts: dict[str, Part], name: str) -> Part:
    """Return a part of a form. Raises InvalidRequest."""
    part = parts.get(name)
    if part is None:
        raise InvalidRequest(f"{name}: the form has no such part")
    return part
