"""The list of edits; docs/mutants.md says what belongs into it."""

from tests.mutants import edits_bookie, edits_ledger

EDITS = (*edits_bookie.EDITS, *edits_ledger.EDITS)
