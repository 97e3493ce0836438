"""Mistakes in what is received from other clusters."""

from tests.mutants.edit import Edit

DEDUPLICATION = "engine/broker/topics/deduplication.py"
TESTS = "unit/broker/topics/test_replicated_entries.py"
ONCE = f"{TESTS}::test_g1_entries_sent_again_are_stored_once_by_their_positions"

EDITS = (
    Edit(
        "replicated-entries-are-judged-by-the-entry-alone",
        f"{DEDUPLICATION}::_ids",
        "(place_of(*id), place_of(*id))",
        "(id[1], id[1])",
        (ONCE,),
        "G1",
    ),
    Edit(
        "positions-of-a-replicator-are-lost-with-the-broker",
        f"{DEDUPLICATION}::Deduplication._remember_entry",
        "if position is not None:",
        "if position is not None and metadata.HasField('marker_type'):",
        (f"{TESTS}::test_g1_positions_are_known_after_a_restart",),
        "G1",
    ),
    Edit(
        "a-replicator-stays-connected-after-a-refusal",
        "engine/broker/topics/publish.py::Publish.refuse",
        "if owner.origin:",
        "if owner.origin and owner.closed:",
        (f"{TESTS}::test_g1_nothing_behind_a_refused_entry_is_stored",),
        "G1",
    ),
    Edit(
        "entries-behind-one-without-a-position-are-stored",
        "engine/broker/connection/produce.py::ProduceCommands._send_replicated",
        "producer.disconnect()",
        "pass",
        (f"{TESTS}::test_g1_nothing_behind_an_entry_without_a_position_is_stored",),
        "G1",
    ),
    Edit(
        "a-client-may-name-itself-a-replicator",
        "engine/broker/connection/produce.py::replicated_cluster",
        "return (CLUSTER,) if origin_of(body.producer_name) else ()",
        "return ()",
        ("unit/access/test_engine_matrix.py::test_a_replicator_needs_the_role_of_a_superuser",),
    ),
)
