"""Items about parts of the instance and about what they keep from working: brokers, bookies, publishing, clients that
left together. Pure."""

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypedDict

from gateway.services.attention.outages import Outage
from gateway.services.attention.quorums import Publishing
from gateway.services.attention.wording import moment, percent
from gateway.services.health.hops import Hop, HopState, Kind

PART_SCORE = 1e9
"""What messages need comes before any subscription; what only the console needs does not."""
STOPPED_SCORE = 4 * PART_SCORE
RISK_SCORE = 2 * PART_SCORE
OUTAGE_SCORE = 3 * PART_SCORE
ASIDE_SCORE = 100.0
ASIDE_MS = 60_000
"""And is told when it is away for longer than it takes to start."""
NEEDED = frozenset((Kind.STORE, Kind.BROKER, Kind.BOOKIE))
PLURALS = {Kind.BROKER: "brokers", Kind.BOOKIE: "bookies"}
PAGES = {Kind.BROKER: "brokers", Kind.BOOKIE: "bookies"}
CHILDREN = {Kind.STORE: "zookeeper", Kind.REDIS: "redis", Kind.SPARK: "worker"}
"""What a supervisor of one instance calls them; brokers and bookies by their ids."""


_SILENT = re.compile(r"has not (answered|reported) for \d+ s")


class Item(TypedDict):
    """As of the contract."""

    key: str
    severity: str
    cause: str
    title: str
    detail: str
    advice: str
    link: str
    command: str
    topic: str
    subscription: str
    count: int
    score: float
    since: int | None
    at_least: bool


class Instance(NamedTuple):
    """How the parts stand. ``hops``: those that do not answer or are late; rows as of the overview."""

    hops: Sequence[Hop] = ()
    brokers: Sequence[dict[str, Any]] = ()
    bookies: Sequence[dict[str, Any]] = ()

    @property
    def down(self) -> list[Hop]:
        """Those that are late are not said: a busy machine is no fault."""
        return [hop for hop in self.hops if hop.state is HopState.DOWN]

    @property
    def fault(self) -> str:
        """What may have cost clients their connections, as it goes on after "left"; empty: nothing."""
        down = self.down
        brokers = [hop.id for hop in down if hop.kind is Kind.BROKER]
        if any(hop.kind is Kind.STORE for hop in down):
            return "when brokers lost their sessions with the metadata store"
        if len(brokers) == 1:
            return f"when broker {brokers[0]} went away"
        return f"when {len(brokers)} brokers went away" if brokers else ""


class Stop(NamedTuple):
    """Publishing is not as it should be, since when (ms), and how many producers there were. ``began``: it was as it
    should be before; else it may have been so for longer."""

    state: Publishing
    since: int
    producers: int
    began: bool


def part_items(
    instance: Instance,
    cluster: str,
    now_ms: int,
    *,
    stop: Stop | None,
    outage: Outage | None,
    producers: int,
    start: str = "",
) -> list[Item]:
    """``producers``: connected now. ``start``: the command line that starts a part, which its name completes; empty:
    none does."""
    place = f"/c/{cluster}/"
    items = [
        _down(kind, those, instance, place, start)
        for kind, those in _by_kind(instance.down)
        if kind in NEEDED or now_ms - min(hop.since for hop in those) > ASIDE_MS
    ]
    if not instance.brokers and not any(hop.kind is Kind.STORE for hop in instance.hops):
        what, then = "No broker is registered", "Clients cannot connect."
        items.append(
            item(
                *("broker-none", "error", what, then, "Start a broker."),
                link=f"{place}brokers",
                command=f"{start} broker-1" if start else "",
            )
        )
    if not instance.bookies:
        what, then = "No bookie is registered", "Publishing to persistent topics fails."
        items.append(
            item(
                *("bookie-none", "error", what, then, "Start a bookie."),
                link=f"{place}bookies",
                command=f"{start} bookie-1" if start else "",
            )
        )
    if stop is not None:
        items.append(_publishing(stop, producers, f"{place}bookies", start))
    if outage is not None:
        items.append(_outage(outage, f"{place}topics"))
    full = [one for one in instance.bookies if one["state"] == "read-only"]
    if full:
        items.append(_read_only(full, f"{place}bookies"))
    return items


def item(
    cause: str,
    severity: str,
    title: str,
    detail: str,
    advice: str,
    *,
    score: float = PART_SCORE,
    since: int | None = None,
    at_least: bool = False,
    link: str = "/",
    command: str = "",
) -> Item:
    """One that is about no topic."""
    return {
        "key": cause,
        "severity": severity,
        "cause": cause,
        "title": title,
        "detail": detail,
        "advice": advice,
        "link": link,
        "command": command,
        "topic": "",
        "subscription": "",
        "count": 1,
        "score": score,
        "since": since,
        "at_least": at_least,
    }


def stopped_title(state: Publishing) -> str:
    """In one line what cannot be published, and why."""
    what = "Nothing can be published"
    if not state.is_stopped_everywhere:
        of = f" of {state.namespaces:,} namespaces" if state.namespaces > 1 else ""
        what = f"{state.stopped:,} of {state.topics:,} topics{of} cannot be published to"
    return f"{what}: {_writable(state)}"


def _writable(state: Publishing) -> str:
    if state.bookies == 1:
        return "the only bookie is not writable" if not state.writable else "1 bookie is writable"
    if not state.writable:
        return f"none of {state.bookies} bookies is writable"
    return f"{state.writable} of {state.bookies} bookies {'is' if state.writable == 1 else 'are'} writable"


def _publishing(stop: Stop, producers: int, link: str, start: str) -> Item:
    state = stop.state
    need = f"acknowledging needs {state.need.ack_quorum}, a new ledger {state.need.ensemble}"
    command = f"{start} {state.away[0]}" if start and state.away else ""
    common: dict[str, Any] = {"since": stop.since, "link": link, "command": command}
    common["at_least"] = not stop.began
    if state.is_stopped:
        lost = stop.producers - producers
        gone = f" · {lost:,} producers disconnected since {moment(stop.since)}"
        return item(
            *("publishing-stopped", "error", stopped_title(state)),
            need[0].upper() + need[1:] + (gone if lost > 0 else ""),
            _more_bookies(state),
            score=STOPPED_SCORE,
            **common,
        )
    held = ""
    if state.is_held:
        some = (
            "" if state.held == state.topics else f" for {state.held:,} of {state.topics:,} topics"
        )
        held = f" · no new ledger can be made{some}: topics that begin one, or load, cannot publish"
    title = "One more bookie away and publishing stops"
    if not state.is_last:
        title = f"No new ledger can be made: {_writable(state)}"
    return item(
        *("publishing-at-risk", "error" if state.is_held else "warning", title),
        f"{_writable(state)[0].upper()}{_writable(state)[1:]}; {need}{held}",
        _more_bookies(state),
        score=RISK_SCORE,
        **common,
    )


def _more_bookies(state: Publishing) -> str:
    steps = []
    if state.away:
        steps.append(f"start {_listed(state.away)}")
    if state.full:
        steps.append(f"make room on {_listed(state.full)}")
    text = ", or ".join(steps) or "add a bookie"
    return f"{text[0].upper()}{text[1:]}."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _outage(outage: Outage, link: str) -> Item:
    why = f" {outage.why}" if outage.why else ""
    back = (
        f"{outage.back:,} are back"
        if outage.back > 1
        else ("1 is back" if outage.back else "none is back")
    )
    return item(
        "clients-left",
        "error" if outage.back * 2 < outage.left else "warning",
        f"{outage.left:,} of {outage.before:,} clients left{why}; {back}",
        f"{outage.now:,} clients are connected · what began with it is not listed yet",
        "Clients reconnect by themselves within a minute or two. Look at the logs of those that do not.",
        score=OUTAGE_SCORE,
        since=outage.at,
        link=link,
    )


def _read_only(full: Sequence[dict[str, Any]], link: str) -> Item:
    first = full[0]
    what = f"Bookie {first['id']} is" if len(full) == 1 else f"{len(full)} bookies are"
    names = "" if len(full) == 1 else f"{first['id']}: "
    below = first.get("usage_writable")
    again = "by itself"
    if below is not None and below < (first.get("usage_limit") or 0):
        again = f"by itself below {percent(below)}"
    return item(
        "bookie-read-only",
        "warning",
        f"{what} read-only",
        names + why_read_only(first),
        f"Free space or add a disk; it becomes writable {again}.",
        since=min((one["since"] for one in full if one.get("since")), default=None),
        link=link,
    )


def why_read_only(row: dict[str, Any]) -> str:
    """With figures where the bookie reports them."""
    usage, limit = row.get("usage"), row.get("usage_limit")
    if usage is not None and limit is not None and usage >= limit:
        return f"Disk {percent(usage)} full, limit {percent(limit)}"
    return str(row.get("reason") or "") or "It does not say why"


def _by_kind(hops: Iterable[Hop]) -> list[tuple[Kind, list[Hop]]]:
    found: dict[Kind, list[Hop]] = {}
    for hop in hops:
        found.setdefault(hop.kind, []).append(hop)
    return list(found.items())


def _down(kind: Kind, those: list[Hop], instance: Instance, place: str, start: str) -> Item:
    first = those[0]
    if len(those) == 1:
        # How long is told by ``since``: a page is not drawn again for each second.
        title, _, why = _SILENT.sub("does not answer", first.reason).partition(": ")
    else:
        title, why = f"{len(those)} {PLURALS.get(kind, kind)} do not answer", ""
        why = ", ".join(hop.id for hop in those)
    oldest = min(those, key=lambda hop: (hop.since, hop.began))
    child = shlex.quote(first.id) if kind in PAGES else CHILDREN.get(kind, "")
    return item(
        f"{kind}-down",
        "error" if kind in NEEDED else "warning",
        title,
        " · ".join(filter(None, (_served(kind, those, instance), why))),
        first.advice,
        score=PART_SCORE if kind in NEEDED else ASIDE_SCORE,
        since=oldest.since,
        at_least=not oldest.began,
        link=f"{place}{PAGES[kind]}" if kind in PAGES else "/",
        command=f"{start} {child}" if start and child else "",
    )


def _served(kind: Kind, hops: list[Hop], instance: Instance) -> str:
    if kind is not Kind.BROKER:
        return ""
    ids = {hop.id for hop in hops}
    topics = sum(broker.get("topics") or 0 for broker in instance.brokers if broker["id"] in ids)
    served = "1 topic was" if topics == 1 else f"{topics:,} topics were"
    return f"{served} there; their figures are the last known" if topics else ""
