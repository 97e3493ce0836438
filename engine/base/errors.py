"""Base classes of all errors of this project.

The class attribute ``retriable`` is true where a retry may succeed; details are fields of an error. Administrative
operations raise kinds of ``Refusal``. Each interface represents these in its own form: the RPC between gateway and
broker by the code, the REST interface by a status.
"""

from typing import NoReturn


class MagnetarError(Exception):
    """Base of all errors. ``retriable``: the same request may succeed later without change."""

    retriable = False


class MisuseError(MagnetarError):
    """The caller violated the rules of an interface, which is a bug in this project."""


class PeerError(MagnetarError):
    """The peer of a connection violated the protocol."""


class WorldError(MagnetarError):
    """The environment failed: a disk, a network, a store."""

    retriable = True


class InvalidNameError(MagnetarError):
    """An invalid tenant, namespace, topic or subscription name; the message names the part and the rule."""


class Refusal(MagnetarError):
    """Refusal of an administrative operation.

    ``code`` is the name of the kind on the wire and never changes. ``reason`` is the text for the client, which is
    Apache Pulsar's where it has one.
    """

    code: str

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InvalidRequest(Refusal):
    """The request has the wrong form or type, or a value that is never allowed."""

    code = "invalid_request"


class InvalidField(InvalidRequest):
    """A field of the request is invalid; the reason has the name of ``field`` and what is expected."""

    def __init__(self, field: str, expected: str) -> None:
        super().__init__(f"{field}: {expected}")
        self.field = field


class UnusableField(InvalidField):
    """A field of a well-formed request that cannot be used: a value or combination that its operation excludes."""


class Forbidden(Refusal):
    """The tenant may not use what the operation refers to."""

    code = "forbidden"


class NotFound(Refusal):
    """The object of the operation does not exist."""

    code = "not_found"


class Unsupported(Refusal):
    """The operation is not offered for an object of this kind, or is disabled."""

    code = "unsupported"


class NotAcceptable(Refusal):
    """The number of partitions is outside its limits, or the topic has the wrong domain."""

    code = "not_acceptable"


class Conflict(Refusal):
    """The operation conflicts with the existing state or with another operation in progress."""

    code = "conflict"


class AlreadyExists(Conflict):
    """The object to be created exists."""

    code = "already_exists"


class PreconditionFailed(Refusal):
    """A name is invalid, the object that it refers to is missing, or the object is in use."""

    code = "precondition_failed"


class Unprocessable(Refusal):
    """The request is valid in form, but cannot be carried out, such as a smaller number of partitions."""

    code = "unprocessable"


class Failed(Refusal):
    """An internal failure that a retry does not resolve: damaged stored data, or a bug."""

    code = "failed"


class NotBuilt(Refusal):
    """The documented operation, or a part of it, is not implemented in this version."""

    code = "not_built"


class NotReady(Refusal):
    """The responsible process cannot carry out the operation now, or is unreachable; a change may have happened."""

    code = "not_ready"
    retriable = True


class NotServed(NotReady):
    """The broker does not serve the object of the operation. Nothing was changed; a new lookup may be tried at once."""

    code = "not_served"


_BY_CODE: dict[str, type[Refusal]] = {
    kind.code: kind
    for kind in (
        *(InvalidRequest, Forbidden, NotFound, Unsupported, NotAcceptable, Conflict, AlreadyExists),
        *(PreconditionFailed, Unprocessable, Failed, NotBuilt, NotReady, NotServed),
    )
}


def refusal(code: str, reason: str) -> Refusal:
    """Return the refusal that another process raised with this code; Failed for an unknown code."""
    kind = _BY_CODE.get(code)
    return kind(reason) if kind is not None else Failed(f"refused as {code[:80]!r}: {reason}")


def refuse_constant(name: str) -> NoReturn:
    """Raise ValueError for NaN or an infinity, which Python's decoder of JSON reads and JSON does not have. It is the
    ``parse_constant`` of ``json.loads``."""
    raise ValueError(f"{name} is no JSON number")
