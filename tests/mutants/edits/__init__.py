"""The list of edits; docs/mutants.md says what belongs into it."""

from tests.mutants.edits import (
    access,
    attention,
    backlogs,
    bookie,
    broker,
    compaction,
    dispatch,
    gateway,
    jobs,
    ledger,
    managed,
    metadata,
    rest,
    rest_produce,
    schemas,
    topics,
)

EDITS = (
    *access.EDITS,
    *bookie.EDITS,
    *ledger.EDITS,
    *managed.EDITS,
    *broker.EDITS,
    *compaction.EDITS,
    *dispatch.EDITS,
    *gateway.EDITS,
    *jobs.EDITS,
    *attention.EDITS,
    *backlogs.EDITS,
    *metadata.EDITS,
    *rest.EDITS,
    *rest_produce.EDITS,
    *schemas.EDITS,
    *topics.EDITS,
)
