"""What needs attention, kept as brokers and hops tell it: lines for the overview, and which topics have which cause for
the list of topics. Looked through when something changed or time made it older. Pure."""

from collections.abc import Collection, Iterable
from typing import Any, TypedDict
from urllib.parse import quote

from engine.admin.lag import LagCause
from gateway.services.attention.findings import Finding, Findings
from gateway.services.attention.ranking import Line, Problem, Ranking, harm, merged
from gateway.services.attention.wording import CAUSES, detail
from gateway.services.health.hops import Hop, HopState, Kind
from gateway.services.index.rows import parts_of
from gateway.services.index.selection import Chosen
from gateway.services.index.topic_index import TopicIndex

ITEMS_MAX = 5
ANY = "any"
"""In place of a cause: all that are no mere information."""
AGES_MS = 10_000
"""Looked through again after this time though nothing changed: problems grow older."""
HOLD_MS = 10_000
"""A topic that no broker has loaded has a problem once that was so for this long: topics move."""
FEW = 10
FEW_HOLD_MS = 300_000
"""And for this long when so few messages wait, as brokers have it: clients take a while to come again."""
RESTING_MAX = 1_000
"""Of those with the largest backlogs."""
SETTLED_MS = HOLD_MS + 2_000
"""After this time a cause that held when the looking began was told: brokers take as long as ``HOLD_MS`` themselves."""
HOP_SCORE = 1e9
"""What messages need comes before any subscription; what only the console needs does not."""
ASIDE_SCORE = 100.0
ASIDE_MS = 60_000
"""And is told when it is away for longer than it takes to start."""
_NEEDED = frozenset((Kind.STORE, Kind.BROKER, Kind.BOOKIE))
_PLURALS = {Kind.BROKER: "brokers", Kind.BOOKIE: "bookies"}


class Item(TypedDict):
    """As of the contract."""

    key: str
    severity: str
    cause: str
    title: str
    detail: str
    advice: str
    link: str
    topic: str
    subscription: str
    count: int
    score: float
    since: int | None


class Found(TypedDict):
    """``known``: every registered broker and the store answer. ``since``: since when all subscriptions are looked at;
    None: not all are. ``settled``: for long enough, so that nothing found means that nothing is."""

    known: bool
    since: int | None
    settled: bool
    items: list[Item]
    more: int


class Lag(TypedDict):
    """Why a subscription does not drain, as of the contract. ``title`` goes on after its name."""

    cause: str
    severity: str
    title: str
    detail: str
    advice: str
    since: int


class Board:
    """On one event loop. ``version`` grows when another cause holds of some topic."""

    def __init__(self, findings: Findings) -> None:
        self.version = 0
        self._findings = findings
        self._ranking = Ranking()
        self._problems: list[Problem] = []
        self._lines: list[Line] = []
        self._seen = (-1, -1)
        self._at = 0
        self._since: int | None = None
        self._whole = False
        self.looked: tuple[int | None, bool] = (None, False)
        """Since when all is looked at, and whether that is long enough, as of the last round."""
        self._moves = 0
        self._resting: dict[str, int] = {}
        """Since when topics with a backlog have been without a broker."""
        self._topics: dict[str, dict[str, None]] = {}
        self._worst: dict[str, tuple[str, str]] = {}

    # --- what is asked --------------------------------------------------------------------------

    def topics_of(self, cause: str) -> Collection[str]:
        """The listed topics of which a subscription has this cause; of ANY those that have one and should not."""
        return self._topics.get(cause, {}).keys()

    def cause_of(self, topic: str) -> tuple[str, str] | None:
        """Severity and cause of a listed topic's most harmful problem."""
        return self._worst.get(topic)

    def lags(self, topic: str, parts: Iterable[str], now_ms: int) -> dict[str, Lag]:
        """Why subscriptions of a listed topic do not drain, by name. ``parts``: its partitions, or itself."""
        found = [one for part in parts for one in self._findings.of(part).values()]
        out: dict[str, tuple[float, Problem]] = {}
        for problem in merged(found, {one.topic: topic for one in found}):
            candidate = (harm(problem, now_ms), problem)
            if candidate[0] > out.get(problem.subscription, (0.0, problem))[0]:
                out[problem.subscription] = candidate
        return {name: _lag(problem, now_ms) for name, (_, problem) in out.items()}

    def found(
        self,
        cluster: str,
        now_ms: int,
        *,
        known: bool,
        hops: list[Hop],
        brokers: list[dict[str, Any]],
        bookies: list[dict[str, Any]],
    ) -> Found:
        """The overview's part."""
        shown_hops = [hop for hop in hops if hop.kind in _NEEDED or now_ms - hop.since > ASIDE_MS]
        items = _hop_items(shown_hops, brokers, bookies)
        items += [_item(line, cluster, now_ms) for line in self._lines]
        items.sort(key=lambda item: -item["score"])
        shown = items[:ITEMS_MAX]
        of_subscriptions = sum(item["count"] for item in shown if item["topic"])
        left = sum(1 for item in items[ITEMS_MAX:] if not item["topic"])
        more = left + len(self._problems) - of_subscriptions
        since = self._since if self._whole else None
        return {
            "known": known,
            "since": since,
            "settled": since is not None and now_ms - since >= SETTLED_MS,
            "items": shown,
            "more": more,
        }

    # --- what is kept ---------------------------------------------------------------------------

    def round(self, topics: TopicIndex, now_ms: int, *, whole: bool) -> None:
        """When brokers told what is behind, and once a round of the collector. ``whole``: every topic was read or is
        loaded by a broker that told all."""
        self._whole = whole
        if self._moves != self._findings.moves:
            self._moves, self._since = self._findings.moves, None
        if whole and self._since is None:
            self._since = now_ms
        since = self._since if whole else None
        self.looked = since, since is not None and now_ms - since >= SETTLED_MS
        seen = (self._findings.version, topics.version)
        waits = any(now_ms - since < HOLD_MS + 2_000 for since in self._resting.values())
        if seen == self._seen and not waits and now_ms - self._at < AGES_MS:
            return
        self._seen, self._at = seen, now_ms
        listed = {one.topic: topics.listed_as(one.topic) for one in self._findings}
        self._problems = merged(self._findings, listed)
        self._problems += self._at_rest(topics, now_ms)
        self._lines = self._ranking.lines(self._problems, ITEMS_MAX, now_ms)
        self._sort_topics(now_ms)

    def _at_rest(self, topics: TopicIndex, now_ms: int) -> list[Problem]:
        """Topics with a backlog that no broker has loaded: nobody consumes them."""
        standing = topics.select(Chosen(standing=True, sort="-backlog"))
        before, self._resting = self._resting, {}
        found: list[Problem] = []
        for name in standing.names(0, RESTING_MAX):
            row = topics.row(name, now_ms)
            if row["known"] != "at_rest" or not row["backlog"]:
                continue
            since = self._resting[name] = before.get(name, now_ms)
            if now_ms - since >= (HOLD_MS if row["backlog"] > FEW else FEW_HOLD_MS):
                cause, evidence = LagCause.NO_CONSUMER.value, {"at_rest": True}
                worst = Finding(name, "", row["backlog"], cause, "warning", since, 0.0, evidence)
                found.append(
                    Problem(name, "", cause, "warning", row["backlog"], 0.0, since, 1, worst)
                )
        if any(
            now_ms - since >= HOLD_MS for name, since in before.items() if name not in self._resting
        ):
            self._since = None  # a broker has it now, and has to see first what is wrong
        return found

    def _sort_topics(self, now_ms: int) -> None:
        topics: dict[str, dict[str, None]] = {}
        worst: dict[str, tuple[float, str, str]] = {}
        for one in self._problems:
            topics.setdefault(one.cause, {})[one.topic] = None
            if one.severity != "info":
                topics.setdefault(ANY, {})[one.topic] = None
            candidate = (harm(one, now_ms), one.severity, one.cause)
            if candidate > worst.get(one.topic, (0.0, "", "")):
                worst[one.topic] = candidate
        told = {topic: (severity, cause) for topic, (_, severity, cause) in worst.items()}
        if topics != self._topics or told != self._worst:
            self._topics, self._worst = topics, told
            self.version += 1


# --- lines in words ---------------------------------------------------------------------------------


def topic_path(cluster: str, topic: str, subscription: str) -> str:
    """The console's page of a listed topic's subscriptions, at one of them."""
    parts = parts_of(topic)
    page = f"/c/{cluster}/t/{parts['tenant']}/{parts['namespace']}/{quote(parts['topic'], safe='')}"
    return f"{page}/subscriptions" + (f"#{quote(subscription, safe='')}" if subscription else "")


def _lag(problem: Problem, now_ms: int) -> Lag:
    words = CAUSES[problem.cause]
    return {
        "cause": problem.cause,
        "severity": problem.severity,
        "title": words.title(problem),
        "detail": detail(problem, now_ms),
        "advice": words.advice,
        "since": problem.since_ms,
    }


def _item(line: Line, cluster: str, now_ms: int) -> Item:
    problem, words = line.problem, CAUSES[line.problem.cause]
    name = problem.topic.removeprefix("persistent://")
    link = topic_path(cluster, problem.topic, problem.subscription)
    if problem.worst.evidence.get("at_rest"):
        title = f"{name} has a backlog and no consumer"
        text = f"{problem.backlog or 0:,} messages wait · no broker has it loaded"
    else:
        title = f"{problem.subscription} {words.title(problem)}"
        text = f"{name} · {detail(problem, now_ms)}"
    if line.total > 1:
        title += f", and {line.total - 1:,} more like it"
    return {
        "key": line.key,
        "severity": problem.severity,
        "cause": problem.cause,
        "title": title,
        "detail": text,
        "advice": words.advice,
        "link": link,
        "topic": problem.topic,
        "subscription": problem.subscription,
        "count": line.total,
        "score": round(line.score, 3),
        "since": problem.since_ms,
    }


def _hop_items(
    hops: list[Hop], brokers: list[dict[str, Any]], bookies: list[dict[str, Any]]
) -> list[Item]:
    items: list[Item] = []
    by_kind: dict[Kind, list[Hop]] = {}
    for hop in hops:
        by_kind.setdefault(hop.kind, []).append(hop)
    for kind, those in by_kind.items():
        down = any(hop.state is HopState.DOWN for hop in those)
        needed = kind in _NEEDED
        title, more = those[0].reason, ""
        if len(those) > 1:
            title = f"{len(those)} {_PLURALS.get(kind, kind)} do not answer"
            more = ", ".join(hop.id for hop in those)
        items.append(
            _hop_item(
                f"{kind}-down",
                "error" if needed and down else "warning",
                title,
                _harm_of(kind, those, brokers) or more,
                those[0].advice,
                HOP_SCORE if needed else ASIDE_SCORE,
                min(hop.since for hop in those),
            )
        )
    if not brokers:
        what, then = "No broker is registered", "Clients cannot connect."
        items.append(_hop_item("broker-none", "error", what, then, "Start a broker.", HOP_SCORE))
    if not any(bookie["state"] == "writable" for bookie in bookies):
        what, then = "No bookie is writable", "Publishing to persistent topics fails."
        items.append(_hop_item("bookie-none", "error", what, then, "Start a bookie.", HOP_SCORE))
    full = [str(bookie["id"]) for bookie in bookies if bookie["state"] == "read-only"]
    if full:
        what = f"Bookie {full[0]} is" if len(full) == 1 else f"{len(full)} bookies are"
        then, advice = "Their disks may be full.", "Make room on their disks."
        items.append(
            _hop_item("bookie-read-only", "warning", f"{what} read-only", then, advice, HOP_SCORE)
        )
    return items


def _harm_of(kind: Kind, hops: list[Hop], brokers: list[dict[str, Any]]) -> str:
    if kind is not Kind.BROKER:
        return ""
    ids = {hop.id for hop in hops}
    topics = sum(broker.get("topics") or 0 for broker in brokers if broker["id"] in ids)
    served = "1 topic was" if topics == 1 else f"{topics:,} topics were"
    return f"{served} there; their figures are the last known." if topics else ""


def _hop_item(
    cause: str,
    severity: str,
    title: str,
    detail: str,
    advice: str,
    score: float,
    since: int | None = None,
) -> Item:
    return {
        "key": cause,
        "severity": severity,
        "cause": cause,
        "title": title,
        "detail": detail,
        "advice": advice,
        "link": "/",
        "topic": "",
        "subscription": "",
        "count": 1,
        "score": score,
        "since": since,
    }
