"""Root of all our errors. A family says as class attributes whether trying again may help; facts are fields.

``Refusal`` is the family of administration: whoever runs an operation raises one of its words, whatever carries the
operation finds its own form for it (the RPC between gateway and broker the code, the REST interface a status).
"""


class MagnetarError(Exception):
    """Root. ``retriable``: the same request may succeed later without change."""

    retriable = False


class MisuseError(MagnetarError):
    """Our own caller broke a rule of the API: a bug on our side."""


class PeerError(MagnetarError):
    """The other side of a connection sent what it must not."""


class WorldError(MagnetarError):
    """The world failed: a disk, a network, a store."""

    retriable = True


class InvalidNameError(MagnetarError):
    """A tenant, namespace, topic or subscription name breaks the rules; the message names the part and the rule."""


class Refusal(MagnetarError):
    """An administrative operation was refused. ``code`` is the kind's name on the wire and never changes, ``reason``
    the text for whoever asked: Apache Pulsar's where it has one."""

    code: str

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InvalidRequest(Refusal):
    """The request has the wrong form or type, or a value that is never possible."""

    code = "invalid_request"


class InvalidField(InvalidRequest):
    """``field`` of the request is what is wrong; the reason says its name and what is expected."""

    def __init__(self, field: str, expected: str) -> None:
        super().__init__(f"{field}: {expected}")
        self.field = field


class Forbidden(Refusal):
    """Not within what the tenant may use."""

    code = "forbidden"


class NotFound(Refusal):
    """What the operation is about does not exist."""

    code = "not_found"


class Unsupported(Refusal):
    """Not offered for an object of this kind, or switched off."""

    code = "unsupported"


class NotAcceptable(Refusal):
    """A number of partitions beyond its limits, or a topic of the wrong domain."""

    code = "not_acceptable"


class Conflict(Refusal):
    """Does not fit what exists, or what somebody else is doing to it."""

    code = "conflict"


class AlreadyExists(Conflict):
    """What is to be made exists."""

    code = "already_exists"


class PreconditionFailed(Refusal):
    """A name breaks the rules, what it refers to is missing, or the object is in use."""

    code = "precondition_failed"


class Unprocessable(Refusal):
    """Well-formed, but it asks for what cannot be done, such as fewer partitions."""

    code = "unprocessable"


class Failed(Refusal):
    """Our own failure, which trying again does not mend: what is stored is damaged, or there is a bug."""

    code = "failed"


class NotBuilt(Refusal):
    """A documented operation, or a part of one, that this version does not offer."""

    code = "not_built"


class NotReady(Refusal):
    """Whoever could do it cannot now, or cannot be reached; a change may or may not have happened."""

    code = "not_ready"
    retriable = True


class NotServed(NotReady):
    """Whoever was asked does not serve (any more) what the operation is about. Nothing was done: who looks it up again
    may ask again at once."""

    code = "not_served"


_BY_CODE: dict[str, type[Refusal]] = {
    kind.code: kind
    for kind in (
        *(InvalidRequest, Forbidden, NotFound, Unsupported, NotAcceptable, Conflict, AlreadyExists),
        *(PreconditionFailed, Unprocessable, Failed, NotBuilt, NotReady, NotServed),
    )
}


def refusal(code: str, reason: str) -> Refusal:
    """The refusal of this code, as it was raised elsewhere; Failed for a code that nobody knows."""
    kind = _BY_CODE.get(code)
    return kind(reason) if kind is not None else Failed(f"refused as {code[:80]!r}: {reason}")
