"""Mistakes in the registry of schemas."""

from tests.mutants.edit import Edit

REGISTRY = "engine/schema/schema_registry.py::SchemaRegistry"
LOST = "unit/schema/test_lost_versions.py"
STORED = "engine/schema/stored_versions.py::StoredVersions"

EDITS = (
    Edit(
        "version-that-others-followed-loses-its-ledger",
        f"{REGISTRY}._swap",
        "return added in (await self._stored.node(name)).versions",
        "return False",
        (
            "unit/schema/test_schema_registry.py::test_a_version_that_others_followed_already_keeps_its_ledger",
        ),
        "S1",
    ),
    Edit(
        "what-is-lost-is-nobodys",
        f"{REGISTRY}._stands_for",
        "return kind is schema.kind",
        "return False",
        (f"{LOST}::test_flipped_bytes_in_a_bookies_log_are_detected_and_reported",),
        "S2",
    ),
    Edit(
        "another-definition-is-believed",
        f"{STORED}._fetch",
        "version.hash and digest_of(registered.schema) != version.hash",
        "False",
        (f"{LOST}::test_a_lost_newest_version_fails_only_operations_that_need_its_definition",),
        "S2",
    ),
    Edit(
        "nothing-is-remembered-of-a-node",
        f"{STORED}.last_node",
        "except (StoreUnavailableError, SessionExpiredError, LostVersionError):",
        "except LostVersionError:",
        (
            f"{LOST}::test_known_schemas_are_accepted_while_the_store_is_unavailable_and_new_ones_are_retriable",
        ),
        "S3",
    ),
    Edit(
        "a-removed-node-is-remembered",
        f"{STORED}.drop_node",
        "self._nodes.drop(name)",
        "pass",
        (f"{LOST}::test_a_removed_schema_is_not_cached_while_the_store_is_unavailable",),
        "S3",
    ),
    Edit(
        "kept-without-bound",
        "engine/schema/bounded_cache.py::BoundedCache.put",
        "self.bytes > self._bytes_max",
        "False",
        (
            "unit/schema/test_bounded_cache.py::test_bytes_are_bounded_and_add_up",
            f"{LOST}::test_the_cache_of_large_definitions_is_bounded",
        ),
        "S4",
    ),
    Edit(
        "long-judgements-hold-the-loop",
        "engine/schema/offloader.py::Offloader.run",
        "size < LONG_BYTES",
        "True",
        ("unit/schema/test_offloader.py::test_long_computations_run_in_another_thread",),
        "S4",
    ),
    Edit(
        "comparisons-without-end",
        "engine/schema/avro_rules.py::Comparison._count_steps",
        "self._steps_left < 0",
        "False",
        ("unit/schema/test_hostile_definitions.py::test_wide_unions_are_bounded_too",),
        "S4",
    ),
)
