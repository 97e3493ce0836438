"""The functions of a cluster, as the requests in the metadata topic have changed them. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import FunctionName


class DeletedFunction(NamedTuple):
    """A deleted function, and the time of its deletion in epoch milliseconds."""

    metadata: pb.FunctionMetaData
    deleted_ms: int


def full_name(metadata: pb.FunctionMetaData) -> str:
    """Return ``tenant/namespace/name``."""
    return str(FunctionName.of(metadata.functionDetails))


class KnownFunctions:
    """Functions by full name; apply requests in the order of the topic.

    As for Apache's workers, a request whose version is not above the stored one is out of date.
    """

    def __init__(self) -> None:
        self._functions: dict[str, pb.FunctionMetaData] = {}
        self._deleted: dict[str, DeletedFunction] = {}

    @property
    def functions(self) -> Mapping[str, pb.FunctionMetaData]:
        """The functions that exist."""
        return self._functions

    @property
    def deleted(self) -> Mapping[str, DeletedFunction]:
        """The functions that were deleted and not created again."""
        return self._deleted

    def apply(self, request: pb.ServiceRequest, at_ms: int) -> bool:
        """Apply a request that was published at ``at_ms``; return whether it changed a function."""
        metadata = request.functionMetaData
        name = full_name(metadata)
        stored = self._functions.get(name)
        if stored is not None and metadata.version <= stored.version:
            return False
        if request.serviceRequestType == pb.ServiceRequest.UPDATE:
            self._functions[name] = metadata
            self._deleted.pop(name, None)
            return True
        if request.serviceRequestType == pb.ServiceRequest.DELETE and stored is not None:
            del self._functions[name]
            self._deleted[name] = DeletedFunction(stored, at_ms)
            return True
        return False

    def cleaned(self, name: str) -> None:
        """Forget a deleted function of which nothing is left."""
        self._deleted.pop(name, None)
