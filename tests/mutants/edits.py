"""The list of edits; docs/mutants.md says what belongs into it."""

from tests.mutants import (
    edits_attention,
    edits_bookie,
    edits_broker,
    edits_compaction,
    edits_dispatch,
    edits_gateway,
    edits_jobs,
    edits_ledger,
    edits_managed,
    edits_metadata,
    edits_rest,
    edits_schemas,
    edits_topics,
)

EDITS = (
    *edits_bookie.EDITS,
    *edits_ledger.EDITS,
    *edits_managed.EDITS,
    *edits_broker.EDITS,
    *edits_compaction.EDITS,
    *edits_dispatch.EDITS,
    *edits_gateway.EDITS,
    *edits_jobs.EDITS,
    *edits_attention.EDITS,
    *edits_metadata.EDITS,
    *edits_rest.EDITS,
    *edits_schemas.EDITS,
    *edits_topics.EDITS,
)
