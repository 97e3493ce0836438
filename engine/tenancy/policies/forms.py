"""Forms of policies' values. Pure.

A form checks the value that a caller sent, and describes itself for pages and documents.
Values are read as leniently as Apache Pulsar reads them: a number may be quoted or have a fraction, which is cut off,
and a boolean may be quoted or a number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engine.base.errors import InvalidField, InvalidRequest, PreconditionFailed, Refusal
from engine.metadata.records import Document

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1


class Form(Protocol):
    """Check and description of a value."""

    def read(self, name: str, given: Any) -> Any:
        """Return the value to be stored. Raises Refusal with ``name`` and the expected form."""
        ...

    def schema(self) -> Document:
        """Return the description for an input form: ``type``, bounds, ``unit``, ``fields``."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from ``low`` to ``high``.

    ``refusal`` and ``kind`` are Pulsar's text and error for a number below ``low``; ``lenient`` accepts such a number,
    as Pulsar does.
    """

    unit: str
    low: int = 0
    high: int = INT_MAX
    refusal: str = ""
    kind: type[Refusal] = PreconditionFailed
    lenient: bool = False

    def read(self, name: str, given: Any) -> int:
        try:
            if isinstance(given, bool) or not isinstance(given, int | float | str):
                raise ValueError
            value = int(given)
        except (ValueError, OverflowError):
            raise InvalidField(name, f"expected a whole number, got {kind_of(given)}") from None
        if value < self.low and not (self.lenient and -value <= self.high):
            raise self.kind(self.refusal or f"{name} must be {self.low} or more")
        if value > self.high:
            raise InvalidRequest(f"{name} must be at most {self.high}")
        return value

    def schema(self) -> Document:
        return {"type": "integer", "minimum": self.low, "maximum": self.high, "unit": self.unit}


@dataclass(frozen=True, slots=True)
class Decimal:
    """A number of at least 0."""

    unit: str

    def read(self, name: str, given: Any) -> float:
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < 1e9:
            raise InvalidField(name, f"expected a number from 0 to 1e9, got {kind_of(given)}")
        return float(given)

    def schema(self) -> Document:
        return {"type": "number", "minimum": 0, "unit": self.unit}


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def read(self, name: str, given: Any) -> bool:
        if isinstance(given, bool | int | float):
            return bool(given)
        if isinstance(given, str) and given.lower() in ("true", "false"):
            return given.lower() == "true"
        raise InvalidField(name, f"expected true or false, got {kind_of(given)}")

    def schema(self) -> Document:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words."""

    options: tuple[str, ...]

    def read(self, name: str, given: Any) -> str:
        if given not in self.options:
            raise InvalidField(name, f"expected one of {', '.join(self.options)}")
        return str(given)

    def schema(self) -> Document:
        return {"type": "string", "enum": list(self.options)}


@dataclass(frozen=True, slots=True)
class Several:
    """A list of words from ``options``, possibly empty, each once."""

    options: tuple[str, ...]

    def read(self, name: str, given: Any) -> list[str]:
        if not isinstance(given, list):
            raise InvalidField(name, f"expected an array, got {kind_of(given)}")
        unknown = [word for word in given if word not in self.options]
        if unknown:
            raise InvalidField(name, f"{unknown[0]!r} is none of {', '.join(self.options)}")
        return [word for word in self.options if word in given]

    def schema(self) -> Document:
        return {"type": "array", "enum": list(self.options)}


@dataclass(frozen=True, slots=True)
class Names:
    """A list of names, each once, in the order given."""

    def read(self, name: str, given: Any) -> list[str]:
        if not isinstance(given, list) or not all(isinstance(item, str) for item in given):
            raise InvalidField(name, f"expected an array of texts, got {kind_of(given)}")
        return list(dict.fromkeys(given))

    def schema(self) -> Document:
        return {"type": "array"}


@dataclass(frozen=True, slots=True)
class Fields:
    """An object with ``fields``, stored in their order.

    A missing field takes its value in ``defaults``, or is left out when that is None. A missing field without a default
    is refused. Unknown fields are ignored, as in Pulsar.
    """

    fields: Mapping[str, Form]
    defaults: Mapping[str, Any]

    def read(self, name: str, given: Any) -> Document:
        if not isinstance(given, dict):
            raise InvalidField(name, f"expected an object, got {kind_of(given)}")
        fields: Document = {}
        for field, form in self.fields.items():
            value = given.get(field)
            if value is not None:
                fields[field] = form.read(field, value)
            elif field not in self.defaults:
                raise InvalidField(name, f"the attribute {field} cannot be null")
            elif self.defaults[field] is not None:
                fields[field] = self.defaults[field]
        return fields

    def schema(self) -> Document:
        """Return the description; a field that is not ``required`` may be absent from a stored value."""
        fields = [
            {"name": field, "required": self.defaults.get(field, 0) is not None, **form.schema()}
            for field, form in self.fields.items()
        ]
        return {"type": "object", "fields": fields}


def kind_of(value: object) -> str:
    """Return the type of a JSON value in JSON's terms, with an article."""
    kinds = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
        dict: "an object",
    }
    return "null" if value is None else kinds[type(value)]
