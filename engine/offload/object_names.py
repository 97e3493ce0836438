"""Names of objects in tiered storage, and the attributes by which Apache Pulsar's brokers recognize them. Pure."""

import re
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from engine.offload.errors import DamagedObjectError

FORMAT_VERSION = "s3managedledgeroffloaderformatversion"
"""Attribute of each object, under every driver. Apache's brokers do not read an object without it."""
SOFTWARE_VERSION = "s3managedledgeroffloadersoftwareversion"
SOFTWARE_REVISION = "s3managedledgeroffloadersoftwaregitsha"
CLUSTER = "pulsarclustername"
INDEX_ENDING = "-index"
"""Ending of the name of an index."""
_NAME = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-ledger-([0-9]{1,19})(-index)?")


class ObjectName(NamedTuple):
    """The ledger of an object and the id of the attempt that wrote it."""

    attempt: uuid.UUID
    ledger_id: int

    @property
    def data_key(self) -> str:
        """Name of the object with the entries."""
        return f"{self.attempt}-ledger-{self.ledger_id}"

    @property
    def index_key(self) -> str:
        """Name of the object with the index of the entries."""
        return self.data_key + INDEX_ENDING


def object_name_of(key: str) -> ObjectName | None:
    """Return the ledger and attempt of an object's ``key``; None when it is no object of tiered storage."""
    parsed = _NAME.fullmatch(key)
    return None if parsed is None else ObjectName(uuid.UUID(parsed[1]), int(parsed[2]))


def attributes_of(cluster: str, version: str) -> dict[str, str]:
    """Return the attributes of an object that a broker of ``cluster`` with software of ``version`` writes."""
    return {
        FORMAT_VERSION: "1",
        SOFTWARE_VERSION: version,
        SOFTWARE_REVISION: "",
        CLUSTER: cluster,
    }


def check_attributes(key: str, attributes: Mapping[str, str]) -> None:
    """Raise DamagedObjectError unless the object ``key`` has the format that is read here."""
    version = {name.lower(): value for name, value in attributes.items()}.get(FORMAT_VERSION)
    if version != "1":
        raise DamagedObjectError(f"object {key}: format version {version!r}, not '1'")
