"""Bundles of a namespace. Pure.

Boundaries divide the hash space, so that every topic belongs to exactly one bundle; the last bundle includes the
highest hash. They are stored in ``/admin/local-policies/<namespace>`` as
``{"bundles":{"boundaries":["0x00000000",…,"0xffffffff"],…},…}`` (Apache Pulsar's layout).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from engine.base.errors import InvalidRequest
from engine.base.names import HASH_TOP, BundleName, NamespaceName, TopicName
from engine.metadata.records import Document, Stored, decode_json, encode_json
from engine.tenancy.checks import texts, typed

DEFAULT_BUNDLES = 32
"""Bundles of a new namespace: enough for the load of several brokers to be balanced between them."""
BUNDLES_MAX = 65_536
"""Maximum number of bundles of a namespace, whose boundaries must fit a node of 1 MiB."""


@dataclass(frozen=True, slots=True)
class Bundles:
    """Bundles of one namespace. ``edges`` are ascending hashes from 0 to HASH_TOP; bundle i is
    ``edges[i]..edges[i+1]``."""

    namespace: NamespaceName
    edges: tuple[int, ...]

    def __post_init__(self) -> None:
        edges = self.edges
        if len(edges) < 2 or edges[0] != 0 or edges[-1] != HASH_TOP:
            raise ValueError(f"bundles of {self.namespace} do not cover the hash space")
        if any(low >= high for low, high in pairwise(edges)):
            raise ValueError(f"boundaries of {self.namespace} are not ascending")

    @classmethod
    def of_boundaries(cls, namespace: NamespaceName, boundaries: Sequence[str]) -> "Bundles":
        """Return the bundles between boundaries in hexadecimal. Raises ValueError."""
        return cls(namespace, tuple(int(text, 16) for text in boundaries))

    @classmethod
    def decode(cls, namespace: NamespaceName, document: bytes) -> "Bundles | None":
        """Decode the bundles in stored policies or local policies; None when these have none.

        Raises ValueError when the document cannot be read.
        """
        return cls.of_policies(namespace, decode_json(document, f"policies of {namespace}"))

    @classmethod
    def of_policies(cls, namespace: NamespaceName, stored: Stored) -> "Bundles | None":
        """Return the bundles in a decoded document; see ``decode``."""
        bundles = stored.get("bundles") or {}
        boundaries = bundles.get("boundaries") if isinstance(bundles, dict) else bundles
        if not boundaries:
            return None
        if not isinstance(boundaries, list) or not all(
            isinstance(text, str) for text in boundaries
        ):
            raise ValueError(f"policies of {namespace}: bundles have no list of boundaries")
        return cls.of_boundaries(namespace, boundaries)

    @property
    def document(self) -> Document:
        """Value of the key ``bundles`` in stored policies, and answer of the REST route."""
        return {"boundaries": [f"0x{edge:08x}" for edge in self.edges], "numBundles": len(self)}

    @property
    def ranges(self) -> list[str]:
        """Texts ``0x…_0x…`` of all bundles, in order."""
        return [bundle.range for bundle in self]

    def of_hash(self, bundle_hash: int) -> BundleName:
        """Return the bundle that contains ``bundle_hash`` (0..HASH_TOP)."""
        index = min(bisect_right(self.edges, bundle_hash) - 1, len(self.edges) - 2)
        return BundleName(self.namespace, self.edges[index], self.edges[index + 1])

    def of_topic(self, topic: TopicName) -> BundleName:
        """Return the bundle of a topic of this namespace."""
        return self.of_hash(topic.bundle_hash)

    def __iter__(self) -> Iterator[BundleName]:
        for low, high in pairwise(self.edges):
            yield BundleName(self.namespace, low, high)

    def __len__(self) -> int:
        return len(self.edges) - 1


def encode_local_policies(bundles: Bundles) -> bytes:
    """Return the first local policies of a namespace in stored form."""
    return encode_json({"bundles": bundles.document, "migrated": False})


def even_bundles(count: int) -> Document:
    """Return ``count`` bundles of equal size. Raises InvalidRequest outside 1..BUNDLES_MAX."""
    if not 1 <= count <= BUNDLES_MAX:
        raise InvalidRequest(
            f"Invalid number of bundles. Number of bundles has to be in the range of (0, {BUNDLES_MAX}].",
        )
    step = (HASH_TOP + 1) // count
    edges = [index * step for index in range(count)] + [HASH_TOP]
    return {"boundaries": [f"0x{edge:08x}" for edge in edges], "numBundles": count}


def bundles(given: Any, default_count: int) -> Document:
    """Return the bundles of a new namespace.

    ``given`` has explicit boundaries or a count; without both, or with a count of 0, there are ``default_count``.
    """
    if given is None:
        return even_bundles(default_count)
    typed("bundles", given, dict, "a JSON object")
    boundaries = given.get("boundaries") or []
    if not boundaries:
        count = typed("numBundles", given.get("numBundles") or 0, int, "a whole number")
        return even_bundles(count or default_count)
    return {"boundaries": checked_boundaries(boundaries), "numBundles": len(boundaries) - 1}


def checked_boundaries(given: Any) -> list[str]:
    """Return ``given`` as sorted unique ``0x%08x`` texts that cover the hash space. Raises InvalidRequest."""
    try:
        edges = sorted({int(text, 16) for text in texts("boundaries", given)})
    except ValueError as error:
        raise InvalidRequest(f"boundaries: not a hexadecimal number: {error}") from error
    if len(edges) < 2 or edges[0] != 0 or edges[-1] != HASH_TOP:
        first, last = (f"0x{edge:08x}" for edge in (edges[0], edges[-1]))
        raise InvalidRequest(
            f"Input bundles do not cover the whole hash range. first:{first}, last:{last}"
        )
    if len(edges) - 1 > BUNDLES_MAX:
        raise InvalidRequest(f"boundaries: at most {BUNDLES_MAX} bundles")
    return [f"0x{edge:08x}" for edge in edges]
