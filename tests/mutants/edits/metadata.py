"""Mistakes in the metadata cache."""

from tests.mutants.edit import Edit

CACHED = "engine/metadata/cached.py"
TESTS = "unit/metadata/test_cached.py"

EDITS = (
    Edit(
        "updates-of-one-store-race-each-other",
        "engine/metadata/update.py::update",
        "async with turn(store, path):",
        "if True:",
        (
            "unit/metadata/test_update.py::test_more_concurrent_updates_than_attempts_all_apply_in_their_order",
        ),
    ),
    Edit(
        "update-writes-whatever-came-between",
        "engine/metadata/update.py::_update",
        "await store.put(path, changed, stat.version)",
        "await store.put(path, changed)",
        ("unit/metadata/test_update.py::test_updates_of_two_processes_are_not_lost",),
    ),
    Edit(
        "account-has-what-was-read-before-the-race",
        f"{CACHED}::CachedStore.put",
        "if accounted is not None: accounted.add(path, before, value)",
        "if accounted is not None: accounted.add(path, value, value)",
        (
            "unit/metadata/test_account.py::test_each_write_is_listed_with_the_old_and_the_new_value",
        ),
    ),
    Edit(
        "a-bundle-nobody-used-is-cut-without-boundaries",
        "engine/broker/administration/operations/bundles.py::BundleOperations.split_bundle",
        "await self._ownership.bundles(args.namespace)",
        "pass",
        (
            "unit/gateway/test_verbs_under_faults.py::test_a_verb_whose_kth_call_of_the_store_fails_is_whole_after_a_repeat",
        ),
    ),
    Edit(
        "event-leaves-the-read-under-way",
        f"{CACHED}::CachedStore._changed",
        "self._remove(path)",
        "self._entries[path].answers.clear()",
        (f"{TESTS}::test_a_change_during_a_read_is_not_lost",),
        "C1",
    ),
    Edit(
        "reads-of-two-times-side-by-side",
        f"{CACHED}::CachedStore._read_for",
        "if _agree(entry, read, answer):",
        "if True:",
        (f"{TESTS}::test_the_kinds_of_reads_agree_with_each_other",),
    ),
    Edit(
        "own-write-not-forgotten",
        f"{CACHED}::CachedStore._forget_written",
        "self.forget_path(path)",
        "pass",
        (f"{TESTS}::test_own_writes_are_seen_at_once_while_events_are_late",),
        "C2",
    ),
    Edit(
        "made-parents-not-forgotten",
        f"{CACHED}::CachedStore.create",
        "if make_parents:",
        "if False:",
        (f"{TESTS}::test_own_writes_are_seen_at_once_while_events_are_late",),
        "C2",
    ),
    Edit(
        "brokers-change-not-forgotten",
        "engine/admin/client.py::AdminClient._forget_changed",
        "if not operation.reads and namespace is not None:",
        "if False:",
        (
            "unit/tenancy/test_reads_from_memory.py::test_an_operation_that_failed_is_followed_by_fresh_reads",
        ),
        "C2",
    ),
    Edit(
        "served-while-suspended",
        f"{CACHED}::CachedStore._live",
        "self._store.state is SessionState.CONNECTED",
        "self._store.connection >= 0",
        (f"{TESTS}::test_nothing_is_served_while_the_session_is_suspended",),
        "C3",
    ),
    Edit(
        "kept-over-a-reconnect",
        f"{CACHED}::CachedStore._live",
        "if self._store.connection == self._connection:",
        "if self._store.connection >= self._connection:",
        (f"{TESTS}::test_a_reconnect_without_an_event_drops_the_whole_cache",),
        "C3",
    ),
    Edit(
        "watches-of-what-made-room-go-on",
        f"{CACHED}::CachedStore._shrink",
        "self._store.unwatch(path, self._changed)",
        "pass",
        (f"{TESTS}::test_the_least_recently_read_are_evicted_and_their_watches_end",),
        "C4",
    ),
    Edit(
        "bytes-without-bound",
        f"{CACHED}::CachedStore._shrink",
        "self._bytes > self._bytes_max",
        "False",
        (f"{TESTS}::test_bytes_are_bounded",),
        "C4",
    ),
)
