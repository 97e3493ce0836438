"""Names and attributes of objects are Apache Pulsar's, and no other object is taken for one."""

import uuid

import pytest

from engine.offload.errors import DamagedObjectError
from engine.offload.object_names import (
    ObjectName,
    attributes_of,
    check_attributes,
    object_name_of,
)

NAME = ObjectName(uuid.UUID("01234567-89ab-cdef-0123-456789abcdef"), 42)


def test_both_objects_are_named_by_attempt_and_ledger() -> None:
    assert NAME.data_key == "01234567-89ab-cdef-0123-456789abcdef-ledger-42"
    assert NAME.index_key == NAME.data_key + "-index"
    assert object_name_of(NAME.data_key) == object_name_of(NAME.index_key) == NAME


@pytest.mark.parametrize(
    "key",
    ["", "ledger-42", NAME.data_key.upper(), NAME.data_key + "-indexes", "a/" + NAME.data_key],
)
def test_another_key_is_no_object_of_tiered_storage(key: str) -> None:
    assert object_name_of(key) is None


def test_an_object_without_the_format_version_is_refused() -> None:
    attributes = attributes_of("c1", "0.1.0")
    check_attributes("k", attributes)
    check_attributes("k", {name.upper(): value for name, value in attributes.items()})
    for other in ({}, {**attributes, "s3managedledgeroffloaderformatversion": "2"}):
        with pytest.raises(DamagedObjectError, match="object k: format version"):
            check_attributes("k", other)
