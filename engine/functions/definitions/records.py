"""The records that workers keep, as bytes: FunctionMetaData, Assignment and ServiceRequest of ``functions.proto``."""

from typing import Literal, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from engine.base.errors import PeerError
from engine.functions.definitions.functions_pb2 import FunctionDetails, FunctionMetaData

RecordT = TypeVar("RecordT", bound=Message)
_KINDS = FunctionDetails.ComponentType
COMPONENTS: dict[FunctionDetails.ComponentType, Literal["function", "source", "sink"]] = {
    _KINDS.FUNCTION: "function",
    _KINDS.SOURCE: "source",
    _KINDS.SINK: "sink",
}


ROLE_PROVIDER = "magnetar.role"
"""Provider in the FunctionAuthenticationSpec of a function whose data is its role."""

CLEAR_TOKEN = "ClearTextFunctionTokenAuthProvider"
"""End of the name of Apache's provider whose data is the token itself."""


class FunctionRecordError(PeerError):
    """Bytes that are no such record."""


class FunctionName(NamedTuple):
    """The name of a function, source or sink. Its text is Pulsar's ``tenant/namespace/name``."""

    tenant: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.namespace}/{self.name}"

    @classmethod
    def of(cls, details: FunctionDetails) -> "FunctionName":
        """Return the name in a function's details."""
        return cls(details.tenant, details.namespace, details.name)


def encode(record: Message) -> bytes:
    """Return the bytes of a record. Those of equal records are equal."""
    return record.SerializeToString(deterministic=True)


def parse(kind: type[RecordT], data: bytes) -> RecordT:
    """Parse a record. Raises FunctionRecordError."""
    record = kind()
    try:
        record.ParseFromString(data)
    except DecodeError as error:
        raise FunctionRecordError(f"{kind.DESCRIPTOR.name}: {error}") from error
    return record


def component_of(details: FunctionDetails) -> Literal["function", "source", "sink"]:
    """Return what a function is.

    Records of old workers do not say it: a source has a class that reads from elsewhere, a sink one that writes there.
    """
    stated = COMPONENTS.get(details.componentType)
    if stated is not None:
        return stated
    if details.source.className or details.source.builtin:
        return "source"
    return "sink" if details.sink.className or details.sink.builtin else "function"


def role_of(metadata: FunctionMetaData) -> str:
    """Return the role that a function logs in with; empty where it has none, or a token of Apache's."""
    spec = metadata.functionAuthSpec
    return spec.data.decode() if spec.provider == ROLE_PROVIDER else ""


def has_clear_token(metadata: FunctionMetaData) -> bool:
    """Return whether a function has a token that an Apache worker stored. These name no provider (4.0.8)."""
    spec = metadata.functionAuthSpec
    if not spec.provider:
        return spec.data.count(b".") == 2
    return spec.provider.endswith(CLEAR_TOKEN)
