"""Mistakes in the ownership of bundles."""

from tests.mutants.edit import Edit

OWNER = "unit/ownership/test_owner.py"
BOUNDARIES = "unit/ownership/test_boundaries.py"
TRANSFERS = "unit/ownership/test_transfers.py"
WITHHELD = "unit/broker/connection/test_withheld_closes.py"
CHECKS = "engine/ownership/load/split_checks.py"
SPLITTER = "unit/broker/control/load/test_bundle_splitter.py"
MOVES = "engine/broker/administration/operations/transfers.py::BundleTransfers"

EDITS = (
    Edit(
        "internal-addresses-for-every-listener",
        "engine/ownership/owner.py::OwnerRecord.urls_of",
        "if listener:",
        "if not listener:",
        (
            "unit/broker/control/test_assignment.py::"
            "test_any_broker_answers_with_the_addresses_of_the_listener_that_a_client_names",
        ),
        "T7",
    ),
    Edit(
        "listener-of-the-connection-forgotten",
        "engine/broker/connection/session.py",
        "lookup.advertised_listener_name = self.listener",
        "pass",
        (
            "unit/broker/test_service.py::"
            "test_a_client_receives_the_addresses_of_the_listener_that_it_names_or_connects_by",
        ),
        "T7",
    ),
    Edit(
        "owned-twice",
        "engine/ownership/registration.py::claim",
        "if stored != own:",
        "if not stored:",
        (f"{OWNER}::test_a_claim_respects_other_owners",),
        "O1",
    ),
    Edit(
        "deletion-without-version",
        "engine/ownership/registration.py::claim",
        "await store.delete(path, stat.version)",
        "await store.delete(path)",
        (
            "unit/ownership/test_lost_races.py::test_a_node_with_a_new_owner_is_not_removed_by_a_claim",
        ),
        "O1",
    ),
    Edit(
        "session-expiry-ignored",
        "engine/ownership/owner.py::BundleOwnership._on_state",
        "if state is SessionState.EXPIRED:",
        "if False:",
        (f"{OWNER}::test_a_cut_off_owner_stops_before_another_can_start",),
        "O2",
    ),
    Edit(
        "session-trusted-too-long",
        "engine/metadata/session_store.py",
        "EXPIRE_FRACTION = 0.9",
        "EXPIRE_FRACTION = 1.1",
        (
            "unit/metadata/test_memory_faults.py::test_partitioned_client_gives_up_before_the_server_does",
        ),
        "O2",
    ),
    Edit(
        "lost-node-overlooked",
        "engine/ownership/owner.py::BundleOwnership._check",
        "ours = False",
        "return",
        (f"{OWNER}::test_a_removed_node_is_a_lost_bundle",),
        "O2",
    ),
    Edit(
        "served-while-it-is-given-up",
        "engine/ownership/owner.py::BundleOwnership.serves",
        "and bundle not in self._leaving",
        "",
        (f"{OWNER}::test_a_released_bundle_is_unloaded_before_its_node_is_deleted",),
        "O3",
    ),
    Edit(
        "node-removed-before-topics-are-closed",
        "engine/ownership/owner.py::BundleOwnership.release",
        """
        if unload is not None:
            await unload(bundle)
        """,
        """
        await self._remove_node(bundle)
        if unload is not None:
            await unload(bundle)
        """,
        (f"{OWNER}::test_a_released_bundle_is_unloaded_before_its_node_is_deleted",),
        "O3",
    ),
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
    Edit(
        "name-in-a-node-taken-as-a-right",
        "engine/ownership/registration.py::claim",
        "return stored in (value, own)",
        "return True",
        (f"{TRANSFERS}::test_only_the_named_broker_acquires_a_released_bundle",),
        "O4",
    ),
    Edit(
        "node-of-the-next-owner-removed",
        "engine/ownership/owner.py::BundleOwnership._remove_node",
        "if stat.ephemeral_owner == self._store.session_id:",
        "if stat.ephemeral_owner:",
        (f"{TRANSFERS}::test_only_the_named_broker_acquires_a_released_bundle",),
        "O4",
    ),
    Edit(
        "passed-on-before-topics-are-closed",
        "engine/ownership/owner.py::BundleOwnership.release",
        """
        if unload is not None:
            await unload(bundle)
        """,
        """
        if successor is not None:
            await self._name_successor(bundle, successor)
        if unload is not None:
            await unload(bundle)
        """,
        (f"{TRANSFERS}::test_a_bundle_is_passed_on_after_its_topics_are_closed",),
        "O4",
    ),
    Edit(
        "failed-successor-stays-named",
        "engine/ownership/owner.py::BundleOwnership._remove_left",
        "await self._remove_node(bundle)",
        "pass",
        (f"{TRANSFERS}::test_a_destination_that_does_not_acquire_leaves_the_bundle_to_any_broker",),
        "O4",
    ),
    Edit(
        "clients-notified-before-the-release",
        f"{MOVES}.transfer",
        "self._unload(leaving, withheld)",
        "self._unload(leaving, None)",
        (f"{TRANSFERS}::test_a_destination_that_does_not_acquire_leaves_the_bundle_to_any_broker",),
    ),
    Edit(
        "moved-clients-look-up",
        "engine/client/client.py::PulsarClient.owner",
        "if moved is not None and (moved.sent_away.url or moved.sent_away.url_tls):",
        "if False:",
        (f"{TRANSFERS}::test_clients_follow_a_moved_bundle_without_a_lookup",),
    ),
    Edit(
        "drained-bundles-are-only-unloaded",
        f"{MOVES}._leave",
        "if destination is not None and destination not in failed:",
        "if False:",
        (f"{TRANSFERS}::test_a_broker_that_stops_moves_its_bundles_and_clients_look_nothing_up",),
    ),
    Edit(
        "late-close-of-a-client-that-closed-itself",
        "engine/broker/connection/produce.py::ProduceCommands.drop",
        "if moved is not None and self.producers.get(producer_id) is not moved.client:",
        "if False:",
        (f"{WITHHELD}::test_a_client_that_closes_meanwhile_is_not_notified",),
    ),
    Edit(
        "second-signal-waits-for-the-drain",
        "engine/programs/program.py::Signals.received",
        "self._drain.reschedule(asyncio.get_running_loop().time())",
        "pass",
        ("unit/programs/test_program.py::test_a_second_signal_ends_the_drain",),
    ),
    Edit(
        "split-at-the-first-check",
        f"{CHECKS}::SplitChecks.due",
        "self._hits.get(overload.bundle, 0) + 1",
        "limits.hits",
        (
            "unit/ownership/load/test_split_checks.py::test_a_bundle_must_be_above_in_checks_in_a_row",
        ),
    ),
    Edit(
        "hot-topic-splits-its-bundle",
        f"{CHECKS}::_is_of_one_topic",
        "return hottest > limit and value - hottest <= limit",
        "return False",
        (f"{SPLITTER}::test_a_hot_topic_is_named_once_and_its_bundle_is_kept",),
    ),
    Edit(
        "bundles-of-a-namespace-unbounded",
        "engine/ownership/owner.py::_split_policies",
        "if len(cut) > bundles_max:",
        "if False:",
        (f"{SPLITTER}::test_a_failed_split_is_reported_and_the_next_check_tries_again",),
    ),
    Edit(
        "each-bundle-waits-for-a-destination-that-hangs",
        f"{MOVES}._leave",
        "failed[destination] = None",
        "pass",
        (f"{TRANSFERS}::test_a_drain_waits_for_a_destination_that_hangs_once",),
    ),
)
