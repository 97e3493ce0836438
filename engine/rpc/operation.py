"""Operations that a server performs for other processes. Pure.

An operation is a value with its name, the types of its arguments and answer, the rights that it needs, and whether it
only reads. A server binds a handler to each of its operations (``engine.rpc.server``), and ``engine.rpc.client`` calls
them; ``engine.admin.api`` declares those of brokers. Arguments are a frozen dataclass and on the wire a JSON object; an
answer is a JSON value.
"""

import json
import typing
from collections.abc import Awaitable, Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Generic, Literal, Protocol, TypeVar

from engine.auth.rights import Right, all_of
from engine.base.errors import InvalidNameError, InvalidRequest, PreconditionFailed
from engine.base.names import NamespaceName, TopicName

A = TypeVar("A")
R = TypeVar("R")

_NAMES: dict[Any, Callable[[str], Any]] = {
    TopicName: TopicName.parse,
    NamespaceName: NamespaceName.parse,
}
"""Parsers of the types that are texts on the wire."""


@dataclass(frozen=True, slots=True)
class Operation(Generic[A, R]):
    """Declaration of an operation.

    ``rights``: what a caller needs, with the resource that the arguments name. Raises TypeError without a right.
    ``reads``: the operation changes nothing, so that after a lost answer another broker may be called. ``unlogged``:
    the arguments that may hold secrets, which the log does not show.
    """

    name: str
    arguments: type[A]
    answer: type[R]
    rights: Right[A] | tuple[Right[A], ...]
    reads: bool = False
    unlogged: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        all_of(self.rights)


def only_reads(operation: Operation[A, R], args: A) -> bool:
    """Return whether a call changes nothing: that of an operation that reads, or a dry run of another."""
    return operation.reads or bool(getattr(args, "dry", False))


Handler = Callable[[Any], Awaitable[Any]]
Handlers = dict[str, tuple[Operation[Any, Any], Handler]]
"""Operations and their handlers by the operation's name."""


def bind(
    operation: Operation[A, R], handler: Callable[[A], Awaitable[R]]
) -> tuple[str, tuple[Operation[Any, Any], Handler]]:
    """Return an item of Handlers; the signature lets the type checker compare the handler with the operation."""
    return operation.name, (operation, handler)


class Caller(Protocol):
    """Caller of operations on the broker that owns the topic or bundle in their arguments."""

    async def call(self, operation: Operation[A, R], args: A) -> R: ...


def encode_call(args: Any, principal: str) -> bytes:
    """Encode the body of a request to run an operation; ``principal`` is the client's, empty if unknown."""
    return json.dumps({"principal": principal, "arguments": to_json(args)}).encode()


def decode_call(body: bytes) -> tuple[str, object]:
    """Decode the body of a request into principal and unparsed arguments. Raises ValueError."""
    call = json.loads(body)
    if not isinstance(call, dict) or not isinstance(call.get("principal", ""), str):
        raise ValueError("a call is an object with principal and arguments")
    return call.get("principal", ""), call.get("arguments")


def to_json(args: Any) -> dict[str, Any]:
    """Return arguments as the JSON object that ``parse_arguments`` reads."""
    given = ((item.name, getattr(args, item.name)) for item in fields(args))
    return {name: _plain(value) for name, value in given if value is not None}


def _plain(value: Any) -> Any:
    if type(value) in _NAMES:
        return str(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return to_json(value) if is_dataclass(value) else value


def parse_arguments(kind: type[A], given: object) -> A:
    """Parse arguments from a JSON value.

    Raises InvalidRequest, which names the field, and PreconditionFailed for an invalid name.
    """
    try:
        return _build(kind, given, "arguments")
    except InvalidNameError as error:
        raise PreconditionFailed(str(error)) from error
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


def _build(kind: type[A], given: object, where: str) -> A:
    if not isinstance(given, dict):
        raise ValueError(f"{where}: must be a JSON object")
    known = _members(kind)  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise ValueError(f"{name}: unknown argument")
    values: dict[str, Any] = {}
    for name, (hint, required) in known.items():
        if name in given:
            values[name] = _checked(name, given[name], hint)
        elif required:
            raise ValueError(f"{name}: missing")
    return kind(**values)


@cache
def _members(kind: type[Any]) -> dict[str, tuple[Any, bool]]:
    """Return the type of each member of a dataclass by name, and whether the member is required."""
    hints = typing.get_type_hints(kind)
    return {
        item.name: (hints[item.name], item.default is MISSING and item.default_factory is MISSING)
        for item in fields(kind)
    }


def _checked(name: str, value: object, kind: Any) -> Any:
    if kind is Any:  # a value that its handler checks
        return value
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is UnionType:
        if value is None and NoneType in inner:
            return None
        return _checked(name, value, next(member for member in inner if member is not NoneType))
    if origin is Literal:
        if value not in inner:
            raise ValueError(f"{name}: must be one of {', '.join(inner)}")
        return value
    if origin is dict:
        if not isinstance(value, dict):
            raise ValueError(f"{name}: must be a JSON object")
        if inner[1] is str and not all(isinstance(v, str) for v in value.values()):
            raise ValueError(f"{name}: must be a JSON object of texts")
        return value
    if origin is list:
        if not isinstance(value, list):
            raise ValueError(f"{name}: must be a JSON array")
        return [_checked(f"{name}[{i}]", item, inner[0]) for i, item in enumerate(value)]
    if kind in _NAMES:
        return _NAMES[kind](_checked(name, value, str))
    if is_dataclass(kind):
        return _build(typing.cast(type[Any], kind), value, name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        named = {str: "a text", int: "a whole number", bool: "true or false"}[kind]
        raise ValueError(f"{name}: must be {named}")
    return value
