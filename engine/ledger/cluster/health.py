"""Record of the bookies to avoid: those that failed recently, fail often or are slow to read from. Pure; the caller
passes the time."""

from engine.ledger.settings import LedgerSettings

EPISODE_S = 1.0
"""Failures closer to each other than this count as one."""


class BookieHealth:
    """Recent failures by bookie id, and the suspect, quarantined and slow bookies that follow from them. ``now`` is
    loop time and never falls."""

    def __init__(self, settings: LedgerSettings) -> None:
        self._settings = settings
        self._suspects: dict[str, float] = {}
        self._quarantined: dict[str, float] = {}
        self._slow: dict[str, float] = {}
        self._errors: dict[str, tuple[float, float, int]] = {}
        self.quarantine_off = False
        """True while the cluster's operators have turned the health check off."""

    def unreachable(self, bookie: str, now: float) -> None:
        """Record that a bookie cannot be connected to. It is not counted as a failure, because many attempts fail while
        one bookie restarts."""
        self._suspects[bookie] = now + self._settings.suspect_s

    def failed(self, bookie: str, now: float) -> bool:
        """Record a failure; return True when the bookie has now failed often enough to be quarantined."""
        settings = self._settings
        self._suspects[bookie] = now + settings.suspect_s
        since, last, count = self._errors.get(bookie, (now, -EPISODE_S, 0))
        if now - last < EPISODE_S:  # one lost connection fails every ledger that used it
            return False
        if now - since >= settings.health_check_interval_s:
            since, count = now, 0
        self._errors[bookie] = since, now, count + 1
        if count + 1 < settings.bookie_errors_per_interval or not settings.quarantine_s:
            return False
        fresh = bookie not in self.quarantined(now)
        self._quarantined[bookie] = now + settings.quarantine_s
        return fresh and not self.quarantine_off

    def slow(self, bookie: str, now: float) -> None:
        """Record that a read from the bookie took so long that another replica was read as well."""
        self._slow[bookie] = now + self._settings.suspect_s

    def registered(self, bookie: str) -> None:
        """Record that a bookie registered: earlier failures no longer make it suspect. A quarantine stays."""
        self._suspects.pop(bookie, None)
        self._slow.pop(bookie, None)

    def suspects(self, now: float) -> list[str]:
        return _unexpired(self._suspects, now)

    def quarantined(self, now: float) -> list[str]:
        return [] if self.quarantine_off else _unexpired(self._quarantined, now)

    def read_rank(self, bookie: str, now: float) -> int:
        """Return 0 to 3; bookies of a lower rank are read from first."""
        if self._suspects.get(bookie, now) > now:
            return 3
        if self._slow.get(bookie, now) > now:
            return 2
        return int(not self.quarantine_off and self._quarantined.get(bookie, now) > now)


def _unexpired(until: dict[str, float], now: float) -> list[str]:
    for bookie, end in list(until.items()):
        if end <= now:
            del until[bookie]
    return list(until)
