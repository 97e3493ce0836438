"""Racks of bookies as operators configure them, and the list of bookies; no function needs a broker.

``/bookies`` holds ``{group: {bookie: {rack, hostname}}}``; ledger clients watch it and place ledgers by it. Every
change is a compare-and-set. Functions raise Refusal with Pulsar's text, and the store's errors. After cancellation a
change may or may not have happened.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.base.errors import Conflict, Failed, InvalidRequest, NotFound, PreconditionFailed
from engine.metadata import paths
from engine.metadata.records import BookieRacks, Document, RecordFormatError, Stored
from engine.metadata.store import MetadataStore
from engine.metadata.update import update
from engine.tenancy.checks import check_document_size, node_name, typed
from engine.tenancy.nodes import children, find_node

BAD_RACK = (
    "Bookie 'rack' parameter is invalid, When `RackawareEnsemblePlacementPolicy` is enabled, the rack name is not "
    "allowed to contain slash (`/`) except for the beginning and end of the rack name string. When "
    "`RegionawareEnsemblePlacementPolicy` is enabled, the rack name can only contain one slash (`/`) except for the "
    "beginning and end of the rack name string."
)
FIELDS = ("rack", "hostname")


class RackPlacement(NamedTuple):
    """Placement of one bookie as configured: its group, and in ``facts`` its rack and hostname where they are set."""

    group: str
    facts: Document


async def all_bookies(store: MetadataStore) -> list[str]:
    """Return the ids of all bookies that ever registered and were not decommissioned, sorted."""
    return await children(store, paths.COOKIES)


async def get_racks(store: MetadataStore) -> Stored:
    """Return rack and hostname by bookie, by group."""
    return await find_node(store, paths.BOOKIE_RACKS) or {}


def placement_of(groups: Mapping[str, Any], bookie: str) -> RackPlacement | None:
    """Return the placement of one bookie in the stored groups, None without one."""
    return next(
        (
            RackPlacement(group, bookies[bookie])
            for group, bookies in groups.items()
            if bookie in bookies
        ),
        None,
    )


async def get_rack(store: MetadataStore, bookie: str) -> Stored:
    """Return a bookie's rack and hostname. Raises NotFound without a placement."""
    placement = placement_of(await get_racks(store), bookie)
    if placement is None:
        raise _unknown(bookie)
    return placement.facts


async def set_rack(
    store: MetadataStore, bookie: str, group: str | None, given: Mapping[str, Any] | None
) -> None:
    """Store the placement of a bookie, which removes it from any other group.

    Raises PreconditionFailed without a group, or for a rack that is a path of several parts, InvalidRequest for values
    that are not texts.
    """
    if group is None:
        raise PreconditionFailed("Bookie 'group' parameters is missing")
    facts = _facts(given)
    node_name("Bookie", bookie)

    def change(value: bytes) -> bytes:
        groups = _without(_decoded(value), bookie)
        groups.setdefault(group, {})[bookie] = facts
        return _encoded(groups)

    await update(store, paths.BOOKIE_RACKS, change, create=lambda: change(b"{}"))


async def delete_rack(store: MetadataStore, bookie: str) -> None:
    """Remove the placement of a bookie. Raises NotFound without one."""

    def change(value: bytes) -> bytes:
        groups = _decoded(value)
        if placement_of(groups, bookie) is None:
            raise _unknown(bookie)
        return _encoded(_without(groups, bookie))

    await update(store, paths.BOOKIE_RACKS, change, create=lambda: change(b"{}"))


async def replace_rack(
    store: MetadataStore,
    bookie: str,
    placement: RackPlacement | None,
    *,
    expected: RackPlacement | None,
) -> None:
    """Replace the placement of a bookie; None removes it.

    Raises Conflict when the stored placement is not ``expected``; invalid racks raise as in ``set_rack``.
    """
    facts = _facts(placement.facts) if placement is not None else {}
    node_name("Bookie", bookie)

    def change(value: bytes) -> bytes:
        groups = _decoded(value)
        if placement_of(groups, bookie) != expected:
            raise Conflict(f"The rack of {bookie} was changed meanwhile; look at it again")
        groups = _without(groups, bookie)
        if placement is not None:
            groups.setdefault(placement.group, {})[bookie] = facts
        return _encoded(groups)

    await update(store, paths.BOOKIE_RACKS, change, create=lambda: change(b"{}"))


def _facts(given: Mapping[str, Any] | None) -> Document:
    if given is None:
        raise InvalidRequest("body: a JSON object with rack and hostname is needed")
    facts = {
        field: typed(field, given[field], str, "a text")
        for field in FIELDS
        if given.get(field) is not None
    }
    # The broker's policy is not known here: a rack may have a region, as ``/region/rack``.
    if facts.get("rack", "").strip("/").count("/") > 1:
        raise PreconditionFailed(BAD_RACK)
    return facts


def _decoded(value: bytes) -> dict[str, Document]:
    try:
        return BookieRacks.decode(value).document
    except RecordFormatError as error:
        raise Failed(str(error)) from error


def _without(groups: dict[str, Document], bookie: str) -> dict[str, Document]:
    """Return the groups without a bookie, and without groups that become empty."""
    remaining = {
        group: {member: facts for member, facts in members.items() if member != bookie}
        for group, members in groups.items()
    }
    return {group: members for group, members in remaining.items() if members}


def _encoded(groups: dict[str, Document]) -> bytes:
    ordered = {group: dict(sorted(groups[group].items())) for group in sorted(groups)}
    return check_document_size("bookie racks", BookieRacks(ordered).encode())


def _unknown(bookie: str) -> NotFound:
    return NotFound(f"Bookie rack placement configuration not found: {bookie}")
