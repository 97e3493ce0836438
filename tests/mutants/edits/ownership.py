"""Mistakes in the ownership of bundles."""

from tests.mutants.edit import Edit

OWNER = "unit/ownership/test_owner.py"
BOUNDARIES = "unit/ownership/test_boundaries.py"

EDITS = (
    Edit(
        "bundle-served-after-a-lost-answer",
        "engine/ownership/owner.py::BundleOwnership.release",
        """
        if not self._tasks.closed:
            task_name = f"give up {bundle}"
            work = partial(self._give_up, bundle)
            self._tasks.spawn(task_name, restarting(task_name, work))
        raise
        """,
        """
        del self._leaving[bundle]
        raise
        """,
        (f"{OWNER}::test_a_release_whose_answer_was_lost_leaves_the_bundle_to_its_new_owner",),
    ),
    Edit(
        "boundaries-cached-for-ever",
        "engine/ownership/owner.py::BundleOwnership.bundles",
        "stop = self._store.watch(path, lambda _: self._forget(namespace))",
        "stop = self._store.watch(path, lambda _: None)",
        ("unit/ownership/test_boundaries.py::test_changed_boundaries_are_read_again",),
    ),
    Edit(
        "held-namespace-not-watched",
        "engine/ownership/owner.py::BundleOwnership._hold",
        "self._watched[namespace] = self._store.watch(path, lambda _: self._forget(namespace))",
        "self._watched[namespace] = lambda: None",
        (
            "unit/ownership/test_boundaries.py::test_a_bundle_acquired_without_its_namespace_in_the_cache_is_lost_by_a_split",
        ),
    ),
    Edit(
        "held-bundles-are-not-found-without-the-policies",
        "engine/ownership/owner.py::BundleOwnership._read_bundles",
        "if stored is None or namespace not in self._held: raise",
        "raise",
        (
            "unit/ownership/test_owner.py::test_bundles_are_held_while_the_configuration_store_is_away",
        ),
        "R2",
    ),
    Edit(
        "namespace-made-again-loses-its-bundles",
        "engine/ownership/owner.py::BundleOwnership._recheck",
        """
        with suppress(NoNamespaceError):
            fresh = await self._read_bundles(namespace, path)
        """,
        "pass",
        (f"{BOUNDARIES}::test_bundles_of_a_recreated_namespace_stay_owned",),
    ),
    Edit(
        "bundle-served-until-its-node-is-removed",
        "engine/ownership/owner.py::BundleOwnership._recheck",
        """
        self._lose(removed, "its boundaries are gone")
        if fresh is None:
            self._forget(namespace)
        for bundle in removed:
            await self._clean_up(bundle)
        """,
        """
        for bundle in removed:
            await self._remove_node(bundle)
        self._lose(removed, "its boundaries are gone")
        if fresh is None:
            self._forget(namespace)
        """,
        (f"{BOUNDARIES}::test_a_bundle_acquired_again_during_its_removal_is_kept",),
    ),
    Edit(
        "boundaries-outlive-their-namespace",
        "engine/ownership/owner.py::BundleOwnership._policies",
        """if decode_json(value, f"policies of {namespace}").get("deleted"):""",
        "if False:",
        (f"{BOUNDARIES}::test_no_boundaries_are_stored_for_a_namespace_being_deleted",),
    ),
)
