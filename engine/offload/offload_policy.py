"""The policy of a topic's tiered storage."""

from dataclasses import dataclass

from engine.offload.bucket import Bucket


@dataclass(frozen=True, slots=True)
class OffloadPolicy:
    """Policy by which a topic's closed ledgers are moved to a bucket; -1 is never."""

    bucket: Bucket
    threshold_bytes: int = -1
    """Bytes of a topic that stay on bookies; older ledgers are moved. 0 moves every closed ledger."""
    threshold_s: float = -1.0
    """Age of a closed ledger, since it was closed, from which it is moved."""
    deletion_lag_s: float = -1.0
    """Time after which a moved ledger is deleted from the bookies."""
    bookies_first: bool = False
    """True to read from bookies what is on both."""

    @property
    def automatic(self) -> bool:
        """True when ledgers are moved without a request."""
        return self.threshold_bytes >= 0 or self.threshold_s >= 0
