"""Mistakes in splitting bundles."""

import asyncio

from engine.base.names import HASH_TOP, BundleName
from engine.metadata import paths
from engine.metadata.records import decode_json, encode_json
from engine.metadata.update import update
from engine.ownership import owner
from engine.ownership.owner import BundleOwnership
from engine.tenancy.bundles import Bundles
from tests.sim.plants.planting import Patches


def parts_are_taken_by_nobody() -> Patches:
    """Store boundaries before the parts are owned: the broker that finds one without an owner acquires it."""
    cut = BundleOwnership._cut

    async def cut_only(self: BundleOwnership, bundle: BundleName, edges: list[int]) -> None:
        parts, self._splitting[bundle] = self._splitting[bundle], []
        try:
            await cut(self, bundle, edges)
        finally:
            self._splitting[bundle] = parts

    return [(BundleOwnership, "_cut", cut_only)]


def bundle_is_let_go_before_it_is_split() -> Patches:
    """Release the bundle for its parts a second before the boundaries are stored: another broker acquires it in
    between."""
    cut = BundleOwnership._cut

    async def release_first(self: BundleOwnership, bundle: BundleName, edges: list[int]) -> None:
        parts = self._splitting[bundle]
        for part in parts:
            await owner.claim(self._store, owner._path(part), self._record.encode())
        self._adopt(bundle)
        await self._remove_node(bundle)
        self._splitting[bundle] = parts
        await asyncio.sleep(1.0)
        await cut(self, bundle, edges)

    def owns(self: BundleOwnership, bundle: BundleName) -> bool:
        return (bundle in self._owned or bundle in self._splitting) and self._proven()

    return [(BundleOwnership, "_cut", release_first), (BundleOwnership, "owns", owns)]


def boundaries_of_others_are_left_out() -> Patches:
    """Store boundaries as the splitting broker knows them: those of other owners' bundles are lost."""

    async def blindly(self: BundleOwnership, bundle: BundleName, edges: list[int]) -> None:
        for part in self._splitting[bundle]:
            await owner.claim(self._store, owner._path(part), self._record.encode())
        bundles = self._held[bundle.namespace]
        ours = {edge for held in bundles for edge in (held.lower, held.upper)}
        stored = Bundles(bundle.namespace, tuple(sorted({0, HASH_TOP, *ours, *edges})))

        def change(value: bytes) -> bytes:
            return encode_json({**decode_json(value, "bundles"), "bundles": stored.document})

        await update(self._store, paths.local_policies(str(bundle.namespace)), change)

    return [(BundleOwnership, "_cut", blindly)]
