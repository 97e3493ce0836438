"""Bundles of a namespace: its hash space cut at boundaries, so that every topic belongs to exactly one. Pure.

Stored in ``/admin/local-policies/<namespace>`` as ``{"bundles":{"boundaries":["0x00000000",…,"0xffffffff"],…},…}``
(Apache Pulsar's layout); the last bundle includes the highest hash.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.base.names import HASH_TOP, BundleName, NamespaceName, TopicName
from engine.metadata.records import decode_json


@dataclass(frozen=True, slots=True)
class Bundles:
    """``edges``: ascending hashes, first 0, last HASH_TOP; bundle i is ``edges[i]..edges[i+1]``."""

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
        """From hexadecimal texts. Raises ValueError."""
        return cls(namespace, tuple(int(text, 16) for text in boundaries))

    @classmethod
    def decode(cls, namespace: NamespaceName, document: bytes) -> "Bundles | None":
        """From stored policies or local policies; None when they name no bundles. Raises ValueError when broken."""
        stored = decode_json(document, f"policies of {namespace}") if document else {}
        bundles = stored.get("bundles") or {}
        boundaries = bundles.get("boundaries") if isinstance(bundles, dict) else bundles
        if not boundaries:
            return None
        if not isinstance(boundaries, list) or not all(isinstance(one, str) for one in boundaries):
            raise ValueError(f"policies of {namespace}: bundles have no list of boundaries")
        return cls.of_boundaries(namespace, boundaries)

    def of_hash(self, bundle_hash: int) -> BundleName:
        """The bundle that holds ``bundle_hash`` (0..HASH_TOP)."""
        index = min(bisect_right(self.edges, bundle_hash) - 1, len(self.edges) - 2)
        return BundleName(self.namespace, self.edges[index], self.edges[index + 1])

    def of_topic(self, topic: TopicName) -> BundleName:
        """The bundle of a topic of this namespace."""
        return self.of_hash(topic.bundle_hash)

    def __iter__(self) -> Iterator[BundleName]:
        for low, high in pairwise(self.edges):
            yield BundleName(self.namespace, low, high)

    def __len__(self) -> int:
        return len(self.edges) - 1


def encode_local_policies(bundles: Bundles) -> bytes:
    """First local policies of a namespace, in stored form."""
    boundaries = [f"0x{edge:08x}" for edge in bundles.edges]
    data = {"boundaries": boundaries, "numBundles": len(bundles)}
    return json.dumps({"bundles": data, "migrated": False}, separators=(",", ":")).encode()
