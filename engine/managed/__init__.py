"""Topics as sequences of ledgers with cursors over them. Start at ``factory`` and ``ledger``."""
