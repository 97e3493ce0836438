"""Mistakes in the metadata store on etcd."""

from tests.mutants.edit import Edit

ETCD = "engine/metadata/etcd"
STORE = f"{ETCD}/etcd_store.py::EtcdStore"
STREAM = f"{ETCD}/watch_stream.py::WatchStream"
UNIT = "unit/metadata/etcd"
SESSIONS, STREAMS = f"{UNIT}/test_sessions.py", f"{UNIT}/test_watch_stream.py"
NODES = f"{UNIT}/test_etcd_store.py"

EDITS = (
    Edit(
        "a-lease-is-proven-from-its-answer",
        f"{STORE}._prove",
        "self._proof = max(self._proof, sent)",
        "self._proof = max(self._proof, self._loop.time())",
        (f"{SESSIONS}::test_a_session_is_given_up_before_etcd_ends_it",),
    ),
    Edit(
        "a-leader-without-a-quorum-proves-the-session",
        f"{STORE}._prove",
        "if _term(renewal) == _term(read) and session_id == self._session_id:",
        "if session_id == self._session_id:",
        (f"{SESSIONS}::test_a_renewal_by_a_leader_without_a_quorum_proves_nothing",),
    ),
    Edit(
        "an-ended-lease-is-kept-alive",
        f"{STORE}._prove",
        'if number(renewal, "TTL") <= 0:',
        "if False:",
        (f"{SESSIONS}::test_an_ended_lease_is_noticed_by_its_renewal",),
    ),
    Edit(
        "a-write-is-repeated-at-another-member",
        f"{ETCD}/gateway.py::EtcdGateway.call",
        "if not repeatable:",
        "if False:",
        (f"{NODES}::test_a_write_without_an_answer_is_unknown_and_not_repeated",),
    ),
    Edit(
        "a-put-ends-the-lease-of-its-node",
        f"{STORE}.put",
        '"ignore_lease": True',
        '"ignore_lease": False',
        (f"{NODES}::test_a_put_keeps_the_lease_of_an_ephemeral_node",),
    ),
    Edit(
        "a-node-is-created-without-its-parent",
        f"{STORE}._create",
        "is_present(parent_key),",
        "",
        (f"{NODES}::test_a_parent_that_another_client_left_out_is_missing_but_has_children",),
    ),
    Edit(
        "a-node-with-children-is-deleted",
        f"{STORE}.delete",
        "[_has_version(key, version), is_childless(key)]",
        "[_has_version(key, version)]",
        (f"{NODES}::test_a_parent_that_another_client_left_out_is_missing_but_has_children",),
    ),
    Edit(
        "a-listing-skips-the-neighbour-of-a-child",
        f"{STORE}._list",
        'if deeper else f"{prefix}{name}\\0"',
        'if deeper else f"{prefix}{name}0"',
        (f"{NODES}::test_children_are_listed_in_pages_that_skip_what_is_below_them",),
    ),
    Edit(
        "pieces-are-read-at-several-revisions",
        f"{STORE}._get_all",
        "revision = revision or revision_of(answer)",
        "revision_of(answer)",
        (f"{NODES}::test_many_nodes_are_read_in_pieces_at_one_revision",),
    ),
    Edit(
        "a-lost-stream-goes-on-from-now",
        f"{STREAM}._open",
        "if self._next:",
        "if False:",
        (f"{STREAMS}::test_a_lost_stream_is_resumed_behind_the_last_event",),
    ),
    Edit(
        "compacted-changes-are-nobodys",
        f"{STREAM}._forget",
        "self._missed(reason)",
        "pass",
        (f"{STREAMS}::test_compacted_changes_are_a_new_connection_and_call_all_watchers",),
    ),
    Edit(
        "a-silent-stream-is-trusted",
        f"{STREAM}.run",
        "await asyncio.wait([reading], timeout=self._replace_s)",
        "await asyncio.wait([reading])",
        (f"{STREAMS}::test_a_stream_that_is_silently_dead_is_replaced_in_time",),
    ),
    Edit(
        "a-part-of-a-revision-is-all-of-it",
        f"{STREAM}._report",
        "changes[-1].revision + complete",
        "changes[-1].revision + 1",
        (
            f"{STREAMS}::test_a_revision_that_two_messages_share_is_read_again_when_the_second_is_lost",
        ),
    ),
    Edit(
        "a-session-that-sees-no-changes-is-connected",
        f"{STORE}._sees",
        "return self._loop.time() - self._seen <= SUSPECT_FRACTION * self._timeout_s",
        "return True",
        (f"{STREAMS}::test_a_session_that_sees_no_changes_is_suspended_while_its_lease_is_proven",),
    ),
    Edit(
        "only-the-parent-of-a-change-is-called",
        f"{STORE}._on_change",
        'while change.listed and path != "/":',
        'if change.listed and path != "/":',
        (
            f"{NODES}::test_a_leaf_that_comes_without_its_parents_changes_the_children_of_all_of_them",
        ),
    ),
    Edit(
        "a-change-during-a-read-is-forgotten",
        f"{ETCD}/read_watches.py::ReadWatches.end",
        "if reading.changed > reading.since:",
        "if False:",
        (f"{UNIT}/test_read_watches.py::test_a_change_before_the_answer_is_judged_by_the_answer",),
    ),
)
