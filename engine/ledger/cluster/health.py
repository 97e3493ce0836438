"""Which bookies to avoid: who failed a moment ago, who fails often, who is slow to read from. Pure; times are given."""

from engine.ledger.settings import LedgerSettings

EPISODE_S = 1.0
"""Failures so close to each other count as one."""


class BookieHealth:
    """Failures by bookie id, and what follows from them. ``now`` is loop time, never falling."""

    def __init__(self, settings: LedgerSettings) -> None:
        self._settings = settings
        self._suspects: dict[str, float] = {}
        self._quarantined: dict[str, float] = {}
        self._slow: dict[str, float] = {}
        self._errors: dict[str, tuple[float, float, int]] = {}
        self.quarantine_off = False
        """Set when the cluster's operators turned the health check off."""

    def unreachable(self, bookie: str, now: float) -> None:
        """It cannot be connected to. Not counted: one that is restarting is asked many times meanwhile."""
        self._suspects[bookie] = now + self._settings.suspect_s

    def failed(self, bookie: str, now: float) -> bool:
        """Avoid a bookie for a while; True when it has now failed often enough to be quarantined."""
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
        """A read of it had to be overtaken."""
        self._slow[bookie] = now + self._settings.suspect_s

    def registered(self, bookie: str) -> None:
        """It is new or came back: what failed a moment ago is past. A quarantine stays."""
        self._suspects.pop(bookie, None)
        self._slow.pop(bookie, None)

    def suspects(self, now: float) -> list[str]:
        return _alive(self._suspects, now)

    def quarantined(self, now: float) -> list[str]:
        return [] if self.quarantine_off else _alive(self._quarantined, now)

    def read_rank(self, bookie: str, now: float) -> int:
        """0 to 3: the lower, the sooner it is asked."""
        if self._suspects.get(bookie, now) > now:
            return 3
        if self._slow.get(bookie, now) > now:
            return 2
        return int(not self.quarantine_off and self._quarantined.get(bookie, now) > now)


def _alive(until: dict[str, float], now: float) -> list[str]:
    for bookie, end in list(until.items()):
        if end <= now:
            del until[bookie]
    return list(until)
