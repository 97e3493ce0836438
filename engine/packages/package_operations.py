"""Operations on packages, which every broker serves. Pure.

A package is uploaded in parts: BEGIN_PACKAGE, ADD_PACKAGE_PART for each part in order, STORE_PACKAGE. The parts may be
sent to several brokers.
"""

from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Literal

from engine.auth.actions import Action
from engine.auth.rights import Right
from engine.base.names import NamespaceName
from engine.packages.package_name import LATEST, PackageName
from engine.rpc.operation import Operation

JsonObject = dict[str, Any]
Via = Literal["packages", "functions", "sources", "sinks"]
"""The action by which a caller has the right to a package: that of packages, or that of the component whose code it
is."""
_COMPONENT = {"functions": "function", "sources": "source", "sinks": "sink"}


@dataclass(frozen=True, slots=True)
class OnPackages:
    """The packages of a kind in a namespace."""

    namespace: NamespaceName
    kind: Literal["function", "sink", "source"]
    via: Via = "packages"

    def __post_init__(self) -> None:
        """Raise ValueError for a component whose code is of another kind."""
        if _COMPONENT.get(self.via, self.kind) != self.kind:
            raise ValueError(f"via: {self.via} have no packages of the kind {self.kind}")


@dataclass(frozen=True, slots=True)
class OnPackageName(OnPackages):
    """The versions of a package."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class OnPackage(OnPackageName):
    """A version of a package; one that is read may be ``latest``."""

    version: str = LATEST

    def __post_init__(self) -> None:
        """Raise InvalidNameError for a name that no package can have."""
        OnPackageName.__post_init__(self)
        PackageName.of(self.kind, self.namespace, self.name, self.version)

    @property
    def package(self) -> PackageName:
        return PackageName(self.kind, self.namespace, self.name, self.version)


@dataclass(frozen=True, slots=True)
class PackagePart(OnPackage):
    """A part of a package's content, from 0."""

    number: int = 0

    def __post_init__(self) -> None:
        OnPackage.__post_init__(self)
        if self.number < 0:
            raise ValueError("number: must not be negative")


@dataclass(frozen=True, slots=True)
class OnUpload(OnPackage):
    """A begun upload."""

    upload: str = ""


@dataclass(frozen=True, slots=True)
class AddPart(OnUpload):
    """The next part of a package's content: ``data`` in base64."""

    data: str = ""


@dataclass(frozen=True, slots=True)
class PackageDescription:
    """A description of a package by people."""

    description: str = ""
    contact: str = ""
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StorePackage(OnUpload):
    """The package of an upload. ``size`` and ``sha256``: those of its content. ``file_name``: the uploaded file's."""

    size: int = 0
    sha256: str = ""
    file_name: str = ""
    described: PackageDescription = field(default_factory=PackageDescription)


@dataclass(frozen=True, slots=True)
class DescribePackage(OnPackage):
    described: PackageDescription = field(default_factory=PackageDescription)


def _right(action: Action) -> Right[OnPackages]:
    def resource(args: OnPackages) -> tuple[NamespaceName, ...]:
        return (args.namespace,) if args.via == action.value else ()

    return Right(action, NamespaceName, resource)


OF_NAMESPACE = tuple(
    _right(action) for action in (Action.PACKAGES, Action.FUNCTIONS, Action.SOURCES, Action.SINKS)
)
PACKAGES = Operation("packages", OnPackages, list[str], OF_NAMESPACE, reads=True)
"""The names of packages, sorted."""
PACKAGE_VERSIONS = Operation("package_versions", OnPackageName, list[str], OF_NAMESPACE, reads=True)
"""The versions of a package, sorted; empty without the package."""
PACKAGE_METADATA = Operation("package_metadata", OnPackage, JsonObject, OF_NAMESPACE, reads=True)
"""PackageMetadata with ``size``, ``sha256``, ``fileName``, ``parts``, their number, and ``version``.

Raises NotFound."""
PACKAGE_PART = Operation("package_part", PackagePart, str, OF_NAMESPACE, reads=True)
"""A part of the content in base64. Raises NotFound."""
BEGIN_PACKAGE = Operation("begin_package", OnPackage, str, OF_NAMESPACE)
"""The id of a new upload. Raises AlreadyExists when the version is stored."""
ADD_PACKAGE_PART = Operation("add_package_part", AddPart, NoneType, OF_NAMESPACE)
"""Stores the next part of an upload. Raises NotFound for an unknown upload."""
STORE_PACKAGE = Operation("store_package", StorePackage, NoneType, OF_NAMESPACE)
"""Makes an upload a version of its package. Raises AlreadyExists, NotFound for an unknown upload."""
ABANDON_PACKAGE = Operation("abandon_package", OnUpload, NoneType, OF_NAMESPACE)
"""Deletes what an upload has stored."""
DESCRIBE_PACKAGE = Operation("describe_package", DescribePackage, NoneType, OF_NAMESPACE)
"""Replaces description, contact and properties. Raises NotFound."""
DELETE_PACKAGE = Operation("delete_package", OnPackage, NoneType, OF_NAMESPACE)
"""Deletes a version. Raises NotFound."""
