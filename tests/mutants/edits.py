"""The list of edits; docs/mutants.md says what belongs into it."""

from tests.mutants import (
    edits_bookie,
    edits_broker,
    edits_gateway,
    edits_ledger,
    edits_managed,
    edits_metadata,
)

EDITS = (
    *edits_bookie.EDITS,
    *edits_ledger.EDITS,
    *edits_managed.EDITS,
    *edits_broker.EDITS,
    *edits_gateway.EDITS,
    *edits_metadata.EDITS,
)
