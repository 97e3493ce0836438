"""Items about parts of the instance and the effects of their failures: brokers, bookies, publishing, disconnections of
many clients. Pure."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

from gateway.services.attention.outages import Outage
from gateway.services.attention.quorums import Publishing
from gateway.services.attention.wording import moment, percent
from gateway.services.health.hops import Hop, HopState, Kind
from gateway.services.health.repair_watch import RepairState

PART_SCORE = 1e9
"""Score of a part that messages need, above that of any subscription."""
STOPPED_SCORE = 4 * PART_SCORE
RISK_SCORE = 2 * PART_SCORE
OUTAGE_SCORE = 3 * PART_SCORE
ASIDE_SCORE = 100.0
"""Score of a part that only the console needs."""
ASIDE_MS = 60_000
"""Time that such a part is down before it is shown: longer than its start takes."""
NAMED_MAX = 3
"""Bookies that an item names."""
NEEDED = frozenset((Kind.STORE, Kind.BROKER, Kind.BOOKIE))
PLURALS = {Kind.BROKER: "brokers", Kind.BOOKIE: "bookies", Kind.FUNCTIONS: "functions workers"}
PAGES = {Kind.BROKER: "brokers", Kind.BOOKIE: "bookies", Kind.FUNCTIONS: "functions"}
CHILDREN = {Kind.STORE: "zookeeper", Kind.REDIS: "redis", Kind.SPARK: "worker"}
"""Names of the standalone supervisor's processes; of other kinds they have their ids."""
_SILENT = re.compile(r"has not (answered|reported) for \d+ s")


class Item(TypedDict):
    """An item of the overview, in the form of the console's interface."""

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
    """State of the parts. ``hops``: those that do not answer or are late; rows have the overview's form. ``damaged``:
    damaged records by path. ``part_prefix``: begin of the names of the cluster's brokers and bookies."""

    hops: Sequence[Hop] = ()
    brokers: Sequence[dict[str, Any]] = ()
    bookies: Sequence[dict[str, Any]] = ()
    damaged: Mapping[str, str] = MappingProxyType({})
    part_prefix: str = ""
    repair: RepairState | None = None

    @property
    def down(self) -> list[Hop]:
        """Parts that do not answer. A late part is not among them: a busy machine is no fault."""
        return [hop for hop in self.hops if hop.state is HopState.DOWN]

    @property
    def fault(self) -> str:
        """The possible reason of disconnections, which continues a sentence after "disconnected"; empty: none."""
        down = self.down
        brokers = [hop.id for hop in down if hop.kind is Kind.BROKER]
        if any(hop.is_metadata_store for hop in down):
            return "when brokers lost their sessions with the metadata store"
        if len(brokers) == 1:
            return f"when broker {brokers[0]} stopped answering"
        return f"when {len(brokers)} brokers stopped answering" if brokers else ""


class Stop(NamedTuple):
    """Restricted publishing.

    ``since``: when it was first seen, ms since the epoch; ``began``: publishing was unrestricted before, otherwise the
    restriction may be older. ``producers``: how many were connected before.
    """

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
    """Return the items, unsorted.

    ``producers``: connected now. ``start``: the command line that starts a part once its name is appended; empty: there
    is none.
    """
    place = f"/c/{cluster}/"
    items = [
        _down(kind, hops, instance, place, start)
        for kind, hops in _groups(instance.down)
        if kind in NEEDED or now_ms - min(hop.since for hop in hops) > ASIDE_MS
    ]
    if not instance.brokers and not any(hop.is_metadata_store for hop in instance.hops):
        title, effect = "No broker is registered", "Clients cannot connect."
        items.append(
            item(
                "broker-none",
                "error",
                title,
                effect,
                "Start a broker.",
                link=f"{place}brokers",
                command=f"{start} {instance.part_prefix}broker-1" if start else "",
            )
        )
    if not instance.bookies:
        title, effect = "No bookie is registered", "Publishing to persistent topics fails."
        items.append(
            item(
                "bookie-none",
                "error",
                title,
                effect,
                "Start a bookie.",
                link=f"{place}bookies",
                command=f"{start} {instance.part_prefix}bookie-1" if start else "",
            )
        )
    if stop is not None:
        items.append(_publishing(stop, producers, f"{place}bookies", start))
    if outage is not None:
        items.append(_outage(outage, f"{place}topics"))
    full = [bookie for bookie in instance.bookies if bookie["state"] == "read-only"]
    if full:
        items.append(_read_only(full, f"{place}bookies"))
    if instance.damaged:
        items.append(_damaged(instance.damaged))
    if instance.repair is not None and instance.repair.marked.ledgers:
        items.append(_under_replicated(instance.repair, f"{place}bookies"))
    return items


def _under_replicated(repair: RepairState, link: str) -> Item:
    marked = repair.marked
    more = "" if marked.is_all else "more than "
    title = f"{more}{marked.ledgers:,} ledgers have too few copies"
    if marked.ledgers == 1:
        title = "1 ledger has too few copies"
    lost = sorted({bookie for row in marked.rows for bookie in row.bookies})
    workers = marked.workers
    facts = [
        f"no longer on {', '.join(lost[:NAMED_MAX])}{' and others' if lost[NAMED_MAX:] else ''}"
        if lost
        else "",
        f"{workers.total()} repaired now" if workers else "none is repaired now",
    ]
    advice = "They are copied by themselves; see the bookies for the progress."
    if not repair.enabled:
        advice = "Auto-recovery is turned off: turn it on, so that they are copied."
    elif repair.auditor is None:
        advice = "No process is the auditor: start auto-recovery, which is part of each bookie."
    return item(
        "under-replicated",
        "warning",
        title[:1].upper() + title[1:],
        " · ".join(filter(None, facts)),
        advice,
        score=RISK_SCORE,
        since=marked.oldest_ms,
        link=link,
    )


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
    """Return an item that is not about a topic."""
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
    """Return in one line which topics cannot be published to, and the reason."""
    effect = "Nothing can be published"
    if not state.is_stopped_everywhere:
        of = f" of {state.namespaces:,} namespaces" if state.namespaces > 1 else ""
        effect = f"{state.stopped:,} of {state.topics:,} topics{of} cannot be published to"
    return f"{effect}: {_writable(state)}"


def _writable(state: Publishing) -> str:
    if state.bookies == 1:
        return "the only bookie is not writable" if not state.writable else "1 bookie is writable"
    if not state.writable:
        return f"none of {state.bookies} bookies is writable"
    return f"{state.writable} of {state.bookies} bookies {'is' if state.writable == 1 else 'are'} writable"


def _publishing(stop: Stop, producers: int, link: str, start: str) -> Item:
    state = stop.state
    need = f"publishing needs {state.need.ack_quorum}, a new ledger {state.need.ensemble}"
    command = f"{start} {state.down[0]}" if start and state.down else ""
    common: dict[str, Any] = {"since": stop.since, "link": link, "command": command}
    common["at_least"] = not stop.began
    if state.is_stopped:
        lost_producers = stop.producers - producers
        disconnected = f" · {lost_producers:,} producers disconnected since {moment(stop.since)}"
        return item(
            "publishing-stopped",
            "error",
            stopped_title(state),
            need[0].upper() + need[1:] + (disconnected if lost_producers > 0 else ""),
            _more_bookies(state),
            score=STOPPED_SCORE,
            **common,
        )
    held = ""
    if state.is_held:
        topics = (
            "" if state.held == state.topics else f" for {state.held:,} of {state.topics:,} topics"
        )
        held = (
            f" · no new ledger can be opened{topics}: publishing fails where one is needed or a topic"
            " is loaded"
        )
    title = "Publishing stops if one more bookie fails"
    if not state.is_last:
        title = f"No new ledger can be opened: {_writable(state)}"
    return item(
        "publishing-at-risk",
        "error" if state.is_held else "warning",
        title,
        f"{_writable(state)[0].upper()}{_writable(state)[1:]}; {need}{held}",
        _more_bookies(state),
        score=RISK_SCORE,
        **common,
    )


def _more_bookies(state: Publishing) -> str:
    steps = []
    if state.down:
        steps.append(f"start {_listed(state.down)}")
    if state.full:
        steps.append(f"free space on {_listed(state.full)}")
    text = ", or ".join(steps) or "add a bookie"
    return f"{text[0].upper()}{text[1:]}."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _outage(outage: Outage, link: str) -> Item:
    why = f" {outage.why}" if outage.why else ""
    count = f"{outage.back:,}" if outage.back else "none"
    back = f"{count} {'have' if outage.back > 1 else 'has'} reconnected"
    return item(
        "clients-left",
        "error" if outage.back * 2 < outage.left else "warning",
        f"{outage.left:,} of {outage.before:,} clients disconnected{why}; {back}",
        f"{outage.now:,} clients are connected · problems that began with it are not listed yet",
        "Clients reconnect automatically within a minute or two. Check the logs of those that do not.",
        score=OUTAGE_SCORE,
        since=outage.at,
        link=link,
    )


def _read_only(full: Sequence[dict[str, Any]], link: str) -> Item:
    first = full[0]
    subject = f"Bookie {first['id']} is" if len(full) == 1 else f"{len(full)} bookies are"
    names = "" if len(full) == 1 else f"{first['id']}: "
    below = first.get("usage_writable")
    threshold = ""
    if below is not None and below < (first.get("usage_limit") or 0):
        threshold = f" below {percent(below)}"
    return item(
        "bookie-read-only",
        "warning",
        f"{subject} read-only",
        names + why_read_only(first),
        f"Free space or add a disk. The bookie becomes writable automatically{threshold}.",
        since=min((bookie["since"] for bookie in full if bookie.get("since")), default=None),
        link=link,
    )


def _damaged(records: Mapping[str, str]) -> Item:
    path = min(records)
    subject = (
        "1 record of a tenant or namespace is"
        if len(records) == 1
        else f"{len(records):,} records of tenants or namespaces are"
    )
    return item(
        "record-damaged",
        "error",
        f"{subject} damaged and give{'s' if len(records) == 1 else ''} no rights",
        f"{path}: {records[path]}",
        "Correct the record in the metadata store, or restore it from a backup. Until then only superusers and, for a"
        " namespace, the tenant's administrators have rights there.",
    )


def why_read_only(row: dict[str, Any]) -> str:
    """Return the reason, with figures when the bookie reports them."""
    usage, limit = row.get("usage"), row.get("usage_limit")
    if usage is not None and limit is not None and usage >= limit:
        return f"Disk {percent(usage)} full, limit {percent(limit)}"
    return str(row.get("reason") or "") or "The bookie reports no reason"


def _groups(hops: Iterable[Hop]) -> list[tuple[Kind, list[Hop]]]:
    """Return the hops by kind; each store is a group of its own, because its effects are."""
    groups: dict[tuple[Kind, str], list[Hop]] = {}
    for hop in hops:
        id = hop.id if hop.kind is Kind.STORE else ""
        groups.setdefault((hop.kind, id), []).append(hop)
    return [(kind, group) for (kind, _), group in groups.items()]


def _down(kind: Kind, hops: list[Hop], instance: Instance, place: str, start: str) -> Item:
    first = hops[0]
    if len(hops) == 1:
        # ``since`` has the duration: a text with seconds would change, and be sent, each second.
        title, _, why = _SILENT.sub("does not answer", first.reason).partition(": ")
    else:
        title = f"{len(hops)} {PLURALS.get(kind, kind)} do not answer"
        why = ", ".join(hop.id for hop in hops)
    oldest = min(hops, key=lambda hop: (hop.since, hop.began))
    child = shlex.quote(first.id) if kind in PAGES else CHILDREN.get(kind, "")
    store = first.id if kind is Kind.STORE else ""
    return item(
        f"{kind}-down-{store}" if store else f"{kind}-down",
        "error" if kind in NEEDED else "warning",
        title,
        " · ".join(filter(None, (_served(kind, hops, instance), why))),
        first.advice,
        score=PART_SCORE if kind in NEEDED else ASIDE_SCORE,
        since=oldest.since,
        at_least=not oldest.began,
        link=f"{place}{PAGES[kind]}" if kind in PAGES else "/",
        command=f"{start} {child}" if start and child and not store else "",
    )


def _served(kind: Kind, hops: list[Hop], instance: Instance) -> str:
    if kind is not Kind.BROKER:
        return ""
    ids = {hop.id for hop in hops}
    topics = sum(broker.get("topics") or 0 for broker in instance.brokers if broker["id"] in ids)
    served = "1 topic was" if topics == 1 else f"{topics:,} topics were"
    return f"{served} served there; figures are as last known" if topics else ""
