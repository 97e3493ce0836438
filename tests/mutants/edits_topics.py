"""Mistakes in what topics do beside carrying messages: the metadata of entries, watched lists, deletion of what
nobody uses, names in four parts, topics that are made by their use."""

from tests.mutants.edit import Edit

CONNECTION = "unit/broker/connection/test_watches.py"
EFFECTS_TEST = "unit/broker/administration/previews/test_policy_effects.py"
INACTIVITY = "engine/broker/topics/inactivity.py"
INACTIVITY_TEST = "unit/broker/topics/test_inactivity.py"
LISTS = "engine/broker/control/topic_lists.py"
LISTS_TEST = "unit/broker/control/test_topic_lists.py"
NAMES = "unit/base/test_names.py"
STAMPS = "engine/managed/writing/stamps.py"
STAMPS_TEST = "unit/managed/writing/test_stamps.py"
TO_USE = "unit/gateway/services/test_topics_to_use.py"
WATCHES = "engine/broker/connection/watches.py"

EDITS = (
    Edit(
        "index-of-the-first-message-of-a-batch",
        f"{STAMPS}::Stamps.append",
        "state.last_index += run.messages",
        "state.last_index += run.count",
        (f"{STAMPS_TEST}::test_a_batch_has_the_index_of_its_last_message",),
    ),
    Edit(
        "the-next-owner-gives-indexes-again",
        f"{STAMPS}::Stamps.recover",
        "highest = max(highest, -1 if index is None else index)",
        "pass",
        (f"{STAMPS_TEST}::test_the_next_owner_goes_on",),
    ),
    Edit(
        "trimmed-indexes-are-given-again",
        f"{STAMPS}::Stamps.recover",
        "highest = int(stored) if is_index else -1",
        "highest = -1",
        (f"{STAMPS_TEST}::test_an_index_is_not_given_again_when_all_entries_are_trimmed",),
    ),
    Edit(
        "who-appends-is-told-no-place",
        f"{STAMPS}::_Unstamped.appended",
        "self._run.ledger_id, self._run.first = run.ledger_id, run.first",
        "pass",
        (f"{STAMPS_TEST}::test_who_appends_is_told_of_what_it_gave_and_where_that_is",),
    ),
    Edit(
        "lists-that-failed-are-not-asked-again",
        f"{LISTS}::TopicLists._look",
        "followed.told.set()",
        "pass",
        (f"{LISTS_TEST}::test_what_changes_while_the_store_is_silent_is_told_later",),
    ),
    Edit(
        "the-store-is-watched-for-nobody",
        f"{LISTS}::TopicLists._end_unused",
        "followed.stop()",
        "pass",
        (f"{LISTS_TEST}::test_the_store_is_not_watched_for_nobody",),
    ),
    Edit(
        "names-that-do-not-match-are-told",
        f"{WATCHES}::_Watch.changed",
        "set(await matching(short, self._matches) or ())",
        "set(short)",
        (f"{CONNECTION}::test_a_watcher_gets_what_matches_and_each_change",),
    ),
    Edit(
        "what-waits-for-a-slow-watcher-is-lost",
        f"{WATCHES}::WatchCommands.wake",
        "watch.tell()",
        "pass",
        (f"{CONNECTION}::test_a_client_that_does_not_read_is_told_at_once_later",),
    ),
    Edit(
        "a-topic-that-comes-again-stays-gone",
        f"{WATCHES}::_Watch._note",
        "(self._gone - new) | (gone - self._new)",
        "self._gone | (gone - self._new)",
        (f"{CONNECTION}::test_what_is_told_adds_up",),
    ),
    Edit(
        "use-since-the-look-does-not-count",
        f"{INACTIVITY}::Inactivity.count",
        "self._since_s.pop(topic, None)",
        "pass",
        (f"{INACTIVITY_TEST}::test_what_happens_meanwhile_counts",),
    ),
    Edit(
        "system-topics-are-deleted",
        f"{INACTIVITY}::is_unused",
        "topic.name.local.startswith(SYSTEM_PREFIX)",
        "False",
        (f"{INACTIVITY_TEST}::test_system_topics_stay",),
    ),
    Edit(
        "a-preview-frees-what-nobody-has-read",
        "engine/managed/ledger.py::ManagedLedger.freed",
        "self._cursors.consumed(passed, gone)",
        "None",
        (f"{EFFECTS_TEST}::test_retention_frees_the_closed_ledgers_that_it_is_told_to_free",),
    ),
    Edit(
        "a-preview-forgets-what-a-ttl-frees",
        "engine/broker/administration/previews/policy_effects.py::of",
        "topic.log.freed(config, taken.passed, taken.gone)",
        "topic.log.freed(config, {}, taken.gone)",
        (f"{EFFECTS_TEST}::test_a_ttl_frees_what_nobody_keeps_by_retention",),
    ),
    Edit(
        "more-is-taken-than-was-seen",
        "admin_ui/policies/services.py::_check",
        "entries > seen[topic][name] and policy is not SIZE_QUOTA",
        "False",
        ("unit/admin_ui/test_policies.py::test_what_would_take_more_than_was_seen_is_not_saved",),
    ),
    Edit(
        "a-backlog-is-deleted-with-its-topic",
        "engine/broker/topics/topic.py::Topic.is_unused",
        "one.consumers or one.cursor.backlog_entries()",
        "one.consumers",
        (f"{INACTIVITY_TEST}::test_a_caught_up_subscription_does_not_hold_it_where_so_said",),
    ),
    Edit(
        "consumers-have-no-time-to-come-again",
        f"{INACTIVITY}::Inactivity.expire_subscriptions",
        "now_ms - topic.loaded_ms < min(limit_ms, RETURN_MS)",
        "False",
        (f"{INACTIVITY_TEST}::test_consumers_may_come_again_after_a_crash",),
    ),
    Edit(
        "the-cluster-of-an-old-name-is-dropped",
        "engine/base/names.py::NamespaceName.below_tenant",
        'f"{self.cluster}/{self.local}" if self.cluster is not None else self.local',
        "self.local",
        (f"{NAMES}::test_legacy_name_has_a_cluster_and_keeps_slashes_in_its_local_name",),
    ),
    Edit(
        "who-only-asks-makes-a-topic",
        "gateway/services/topics.py::partitions",
        "if not allow_missing:",
        "if False:",
        (f"{TO_USE}::test_who_only_asks_makes_none",),
    ),
    Edit(
        "a-topic-that-is-not-made-has-an-owner",
        "gateway/services/topics.py::lookup",
        "await _to_use(engine, name)",
        "pass",
        (f"{TO_USE}::test_where_none_is_made_there_is_none",),
    ),
)
