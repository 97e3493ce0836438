"""Settings of connectors: JSON Schemas made of few kinds of fields, and what is done by them. Pure.

A secret is a field with ``writeOnly``: it is never shown, and may come from the secrets of the sink or source
instead of its settings, under the same name.
"""

import difflib
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from engine.base.errors import UnusableField

MASK = "********"
"""The text in place of a secret where settings are shown. In an update it means: unchanged."""
CONFIGS = "configs"
"""The field of SinkConfig and SourceConfig that has the settings."""
TEXTS_MAX = 100
"""Texts of a list at most."""
URL_FORMAT = "uri"
Schema = dict[str, Any]


def text(
    title: str,
    description: str,
    default: str | None = None,
    *,
    secret: bool = False,
    choices: Collection[str] = (),
    pattern: str = "",
    longest: int = 4096,
) -> Schema:
    """Return the schema of a text. Without ``default`` it may be left out."""
    schema: Schema = {"type": "string", "title": title, "description": description}
    if choices:
        schema["enum"] = list(choices)
    else:
        schema |= {"minLength": 1, "maxLength": longest}
    if default is not None:
        schema["default"] = default
    if pattern:
        schema["pattern"] = pattern
    if secret:
        schema["writeOnly"] = True
    return schema


def url(title: str, description: str, pattern: str) -> Schema:
    """Return the schema of a URL. One with a password is refused, since it would be shown."""
    return {**text(title, description, pattern=pattern), "format": URL_FORMAT}


def whole(title: str, description: str, default: int | None, low: int, high: int) -> Schema:
    """Return the schema of a whole number."""
    schema: Schema = {"type": "integer", "title": title, "description": description}
    schema |= {"minimum": low, "maximum": high}
    return schema if default is None else {**schema, "default": default}


def number(title: str, description: str, default: float, low: float, high: float) -> Schema:
    """Return the schema of a number."""
    limits = {"minimum": low, "maximum": high, "default": default}
    return {"type": "number", "title": title, "description": description, **limits}


def flag(title: str, description: str, default: bool) -> Schema:
    """Return the schema of a switch."""
    return {"type": "boolean", "title": title, "description": description, "default": default}


def texts(title: str, description: str, *, least: int = 0) -> Schema:
    """Return the schema of a list of texts."""
    items = {"type": "string", "minLength": 1, "maxLength": 1024}
    return {
        **{"type": "array", "title": title, "description": description},
        **{"items": items, "maxItems": TEXTS_MAX},
        **({"minItems": least} if least else {"default": []}),
    }


def mapping(title: str, description: str, *, secret: bool = False) -> Schema:
    """Return the schema of an object whose values are texts."""
    schema: Schema = {"type": "object", "title": title, "description": description}
    schema |= {"additionalProperties": {"type": "string"}, "default": {}}
    return {**schema, "writeOnly": True} if secret else schema


def fields(required: Collection[str], **properties: Schema) -> Schema:
    """Return the schema of all settings of a connector."""
    return {
        **{"type": "object", "properties": properties},
        **{"required": list(required), "additionalProperties": False},
    }


def checked(
    schema: Schema, settings: Mapping[str, Any], secrets: Collection[str] = ()
) -> dict[str, Any]:
    """Return the settings with defaults filled in. Raises UnusableField, which names the first that is wrong.

    ``secrets``: names that the secrets of the sink or source have; a secret field among them need not be given.
    """
    import jsonschema  # not at the start of a worker that runs functions alone

    known = schema["properties"]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(known)}"
            raise UnusableField(f"{CONFIGS}.{name}", f"no setting of this connector{hint}")
    given = {*settings, *(name for name in secrets if known.get(name, {}).get("writeOnly"))}
    for name in schema["required"]:
        if name not in given:
            raise UnusableField(f"{CONFIGS}.{name}", "is required")
    for name, value in settings.items():
        if known[name].get("format") == URL_FORMAT and _has_password(value):
            secret = next(field for field, rules in known.items() if rules.get("writeOnly"))
            place = "password" if "password" in known else secret
            raise UnusableField(
                f"{CONFIGS}.{name}", f"shows its password: give it in {CONFIGS}.{place}"
            )
    needed = [name for name in schema["required"] if name in settings]
    validator = jsonschema.Draft202012Validator({**schema, "required": needed})
    problems = sorted(validator.iter_errors(dict(settings)), key=lambda error: list(error.path))
    if problems:
        first = problems[0]
        path = [str(part) for part in first.path]
        # A message of the library repeats the value, which may be secret.
        is_secret = bool(path) and bool(known[path[0]].get("writeOnly"))
        message = f"is no valid {known[path[0]]['type']}" if is_secret else first.message
        raise UnusableField(".".join([CONFIGS, *path]), message)
    defaults = {name: field["default"] for name, field in known.items() if "default" in field}
    return {**defaults, **settings}


def _has_password(value: Any) -> bool:
    """Return whether a URL has a password, before its host or among its options."""
    if not isinstance(value, str):
        return False
    try:
        parts = urlsplit(value)
        options = [name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    except ValueError:  # no URL, which its pattern or its library reports
        return False
    return bool(parts.password) or any("password" in name for name in options)


def with_secrets(
    schema: Schema, settings: Mapping[str, Any], secret: Callable[[str], str | None]
) -> dict[str, Any]:
    """Return the settings with each secret field taken from ``secret``, where that has it."""
    known = {
        name: value
        for name, field in schema["properties"].items()
        if field.get("writeOnly") and (value := secret(name)) is not None
    }
    return {**settings, **known}


def masked(schema: Schema, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as they are shown: a mask for each secret that is set."""
    known = schema["properties"]
    return {
        name: MASK if known.get(name, {}).get("writeOnly") and value else value
        for name, value in settings.items()
    }


def unmasked(
    schema: Schema, settings: Mapping[str, Any], stored: Mapping[str, Any]
) -> dict[str, Any]:
    """Return settings of an update, in which a masked secret is the stored one."""
    known = schema["properties"]
    return {
        name: stored.get(name)
        if value == MASK and known.get(name, {}).get("writeOnly") and name in stored
        else value
        for name, value in settings.items()
    }


_TYPE_NAMES = {
    **{"string": "java.lang.String", "integer": "long", "number": "double"},
    **{"boolean": "boolean", "array": "java.util.List", "object": "java.util.Map"},
}


def config_definition(schema: Schema) -> list[dict[str, Any]]:
    """Return the settings as Pulsar's ConfigFieldDefinition, which its tools read."""
    return [
        {
            "fieldName": name,
            "typeName": _TYPE_NAMES[field["type"]],
            "attributes": {
                "required": str(name in schema["required"]).lower(),
                "defaultValue": _shown(field.get("default")),
                "sensitive": str(bool(field.get("writeOnly"))).lower(),
                "help": field["description"],
            },
        }
        for name, field in schema["properties"].items()
    ]


def _shown(default: Any) -> str:
    if default is None or default in ([], {}):
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)
