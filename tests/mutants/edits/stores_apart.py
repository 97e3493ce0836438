"""Mistakes where metadata stores are apart, and in the commands that prepare them."""

from tests.mutants.edit import Edit

CACHED = "engine/metadata/cached.py"
ROUTED = "engine/metadata/apart/routed.py"
COMMANDS = "unit/programs/commands/test_cluster_metadata.py"
ROUTED_TESTS = "unit/metadata/apart/test_routed.py"

EDITS = (
    Edit(
        "only-the-root-of-a-tree-is-in-its-store",
        f"{ROUTED}::RoutedStore._other",
        "by_prefix.get(path if second < 0 else path[:second])",
        "by_prefix.get(path)",
        (f"{ROUTED_TESTS}::test_each_path_lies_in_its_store",),
        "R1",
    ),
    Edit(
        "ephemeral-nodes-of-another-session",
        f"{ROUTED}::RoutedStore.create",
        "if ephemeral and not sequence:",
        "if False:",
        (f"{ROUTED_TESTS}::test_ephemeral_nodes_are_refused_outside_the_local_store",),
        "R1",
    ),
    Edit(
        "the-end-of-another-session-is-raised-as-the-own",
        f"{ROUTED}::OtherStore.named",
        "except (StoreUnavailableError, SessionExpiredError) as error:",
        "except StoreUnavailableError as error:",
        (f"{ROUTED_TESTS}::test_the_end_of_another_session_is_no_end_of_the_local_one",),
        "R2",
    ),
    Edit(
        "states-of-other-sessions-are-reported-as-the-own",
        f"{ROUTED}::RoutedStore.on_state",
        "return self._local.on_state(callback)",
        "self.others[0].store.on_state(callback); return self._local.on_state(callback)",
        (
            f"{ROUTED_TESTS}::test_the_end_of_another_session_is_no_end_of_the_local_one",
            "unit/ownership/test_owner.py::test_bundles_are_held_while_the_configuration_store_is_away",
        ),
        "R2",
    ),
    Edit(
        "watchers-of-another-store-watch-the-local-one",
        f"{ROUTED}::RoutedStore.watch",
        "return self.at(path).watch(path, callback)",
        "return self._local.watch(path, callback)",
        (
            f"{ROUTED_TESTS}::test_watchers_are_notified_when_their_store_is_back",
            "unit/broker/control/test_policies_cache.py::"
            "test_policies_serve_while_the_configuration_store_is_away_and_are_read_again_then",
        ),
        "R2",
    ),
    Edit(
        "changes-of-the-local-store-alone-are-followed",
        f"{CACHED}::follow",
        "for cache in caches: cache.follow(changes)",
        "caches[0].follow(changes)",
        (f"{ROUTED_TESTS}::test_changes_in_each_store_are_followed_and_forgotten",),
    ),
    Edit(
        "boundaries-unknown-while-a-store-was-away-stay-unknown",
        "engine/ownership/owner.py::BundleOwnership._recheck",
        "await asyncio.sleep(RETRY_S)\nself._forget(namespace)",
        "pass",
        (
            "unit/ownership/test_owner.py::"
            "test_bundles_of_a_namespace_that_was_deleted_meanwhile_are_lost_once_that_is_known",
        ),
        "R2",
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
        "a-cluster-that-has-tenants-is-not-added-to-them",
        "engine/tenancy/initialization.py::_extend",
        "if cluster in clusters:",
        "if clusters:",
        (f"{COMMANDS}::test_a_second_cluster_is_added_to_tenants_and_namespaces",),
    ),
    Edit(
        "a-repeated-initialization-removes-coordinators",
        "engine/tenancy/initialization.py::ensure_coordinators",
        'int(record.get("partitions") or 0) >= partitions',
        'int(record.get("partitions") or 0) == partitions',
        (f"{COMMANDS}::test_a_repetition_changes_nothing",),
    ),
    Edit(
        "metadata-of-running-brokers-is-deleted",
        "engine/programs/commands/cluster_metadata.py::delete_cluster_metadata",
        "if brokers:",
        "if False:",
        (f"{COMMANDS}::test_a_cluster_with_brokers_is_not_deleted",),
    ),
    Edit(
        "ledgers-of-schemas-stay-behind-a-deleted-cluster",
        "engine/programs/commands/cluster_metadata.py::_delete_ledgers",
        "await ledgers.delete(version.ledger_id)",
        "pass",
        (
            f"{COMMANDS}::test_ledgers_of_topics_cursors_and_schemas_are_deleted_where_bookkeeper_is_named",
        ),
    ),
)
