"""Load reports of brokers: the measured part of Pulsar's LocalBrokerData, of its brokers and of ours. Pure.

A broker writes its report to ``/loadbalance/brokers/<id>`` (``engine.ownership.registration`` has its addresses). What
is not known is absent, and None here: never 0, never negative (L3). A number that cannot be true is a fault of the
report; it counts as unknown and is named in ``faults``.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from engine.base.errors import InvalidNameError
from engine.base.names import BundleName, NamespaceName
from engine.metadata.records import Document, decode_json

SHARE_MAX = 2.0
"""Share of a resource above which a report is wrong; up to it, the share counts as 1."""
BUNDLES_LISTED_MAX = 5_000
"""Names of bundles in a report, about 250 KB; ``numBundles`` counts all of them."""
MORE_MAX = 90
"""Bundles in a report besides those in ``lastStats``, about 10 KB."""
_RATES = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")
_COUNTS = ("consumerCount", "producerCount", "topics")


class ResourceUsage(NamedTuple):
    """ResourceUsage of a resource, in the unit of its ``limit`` (> 0)."""

    used: float
    limit: float

    @property
    def share(self) -> float:
        """Used share of the resource, 0..1."""
        return min(1.0, self.used / self.limit)


class BundleLoad(NamedTuple):
    """Traffic of a bundle: messages and bytes per second, and counts."""

    rate_in: float = 0.0
    bytes_in: float = 0.0
    rate_out: float = 0.0
    bytes_out: float = 0.0
    consumers: int = 0
    producers: int = 0
    topics: int = 0
    hot_topic: str = ""
    """Full name of the topic that causes more than half of the bundle's load; empty without one."""

    @property
    def messages(self) -> float:
        """Messages per second, in and out."""
        return self.rate_in + self.rate_out

    @property
    def bytes(self) -> float:
        """Bytes per second, in and out."""
        return self.bytes_in + self.bytes_out

    def document(self) -> Document:
        """Return Pulsar's NamespaceBundleStats."""
        return {
            "msgRateIn": self.rate_in,
            "msgThroughputIn": self.bytes_in,
            "msgRateOut": self.rate_out,
            "msgThroughputOut": self.bytes_out,
            "consumerCount": self.consumers,
            "producerCount": self.producers,
            "topics": self.topics,
            "cacheSize": 0,
        }


def sum_of(loads: Iterable[BundleLoad]) -> BundleLoad:
    """Return the sums of the traffic and the counts of several bundles."""
    columns = zip(*(load[:-1] for load in loads), strict=True)
    sums = [sum(column) for column in columns]
    return BundleLoad._make((*sums, "")) if sums else BundleLoad()


_NO_BUNDLES: Mapping[BundleName, BundleLoad] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Measured load of one broker; the default knows nothing.

    ``cpu`` of our brokers is the share of time in which the event loop was busy, with limit 100. Bandwidths are Kbit/s.
    ``total`` sums all bundles, ``bundles`` has those with most load, ``owned`` names all (at most BUNDLES_LISTED_MAX),
    and ``owned_count`` counts them.
    """

    broker_id: str
    updated_ms: int | None = None
    """Time of the report by the broker's clock, epoch milliseconds."""
    cpu: ResourceUsage | None = None
    bandwidth_in: ResourceUsage | None = None
    bandwidth_out: ResourceUsage | None = None
    total: BundleLoad | None = None
    bundles: Mapping[BundleName, BundleLoad] = field(default_factory=lambda: _NO_BUNDLES)
    listed: int | None = None
    """Number of ``bundles`` in the part of the report that Apache's brokers read, too; None: all."""
    owned: tuple[BundleName, ...] = ()
    owned_count: int | None = None
    gains: tuple[BundleName, ...] = ()
    """Bundles acquired since the previous report."""
    losses: tuple[BundleName, ...] = ()
    """Bundles lost or released since the previous report."""
    ours: bool = True
    """False for the report of a broker of Apache Pulsar, which our leader cannot ask to move bundles."""
    faults: tuple[str, ...] = ()
    """Fields that cannot be used, with their values."""

    @property
    def usage(self) -> float | None:
        """The largest used share of a resource, 0..1; None when the CPU's is unknown."""
        if self.cpu is None:
            return None
        known = (self.cpu, self.bandwidth_in, self.bandwidth_out)
        return max(resource.share for resource in known if resource is not None)

    def share_of(self, bundle: BundleName) -> float | None:
        """Return the part of ``usage`` that a bundle causes, 0..1; None when it is unknown.

        It is attributed by the bundle's parts of messages and of bytes, both with the same weight.
        """
        load, usage, total = self.bundles.get(bundle), self.usage, self.total
        if load is None or usage is None or total is None:
            return None
        # The bundles were summed at other moments than the total, which may be smaller.
        parts = (
            (load.messages, max(total.messages, load.messages)),
            (load.bytes, max(total.bytes, load.bytes)),
        )
        known = [part / whole for part, whole in parts if whole > 0]
        return usage * sum(known) / len(known) if known else 0.0

    def document(self) -> Document:
        """Return the fields of LocalBrokerData from ``cpu`` to ``lastBundleLosses``, in Pulsar's order."""
        usages = {
            "cpu": self.cpu,
            "bandwidthIn": self.bandwidth_in,
            "bandwidthOut": self.bandwidth_out,
        }
        total = self.total
        rates: Document = {}
        counts: Document = {}
        if total is not None:
            rates = {
                "msgThroughputIn": total.bytes_in,
                "msgThroughputOut": total.bytes_out,
                "msgRateIn": total.rate_in,
                "msgRateOut": total.rate_out,
            }
            counts = {"numConsumers": total.consumers, "numProducers": total.producers}
        return {
            **{
                name: {"usage": usage.used, "limit": usage.limit}
                for name, usage in usages.items()
                if usage is not None
            },
            **rates,
            **({} if self.updated_ms is None else {"lastUpdate": self.updated_ms}),
            "lastStats": {
                str(bundle): load.document()
                for bundle, load in islice(self.bundles.items(), self.listed)
            },
            **({} if total is None else {"numTopics": total.topics}),
            **({} if self.owned_count is None else {"numBundles": self.owned_count}),
            **counts,
            **_names("bundles", self.owned),
            **_names("lastBundleGains", self.gains),
            **_names("lastBundleLosses", self.losses),
        }

    def additions(self) -> Document:
        """Return the fields at the end of a report that only our brokers write and read."""
        hot = {
            str(bundle): load.hot_topic for bundle, load in self.bundles.items() if load.hot_topic
        }
        more = {
            str(bundle): [*(round(rate, 1) for rate in load[:4]), *load[4:7]]
            for bundle, load in islice(self.bundles.items(), self.listed or 0, None)
            if self.listed is not None
        }
        return {
            **({"hotTopics": hot} if hot else {}),
            **({"moreStats": more} if more else {}),
        }


def _names(field_name: str, bundles: Iterable[BundleName]) -> Document:
    return {field_name: [str(bundle) for bundle in bundles][:BUNDLES_LISTED_MAX]}


def decode_report(broker_id: str, value: bytes) -> LoadReport:
    """Decode the load in a stored report. Whatever it holds, an answer is returned: unusable fields are faults."""
    try:
        stored = decode_json(value or b"{}", f"report of broker {broker_id}")
    except ValueError as error:
        return LoadReport(broker_id, ours=False, faults=(str(error),))
    return _Reader(stored).report(broker_id)


class _Reader:
    """Reads the fields of one report and collects its faults."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self._stored = stored
        self._faults: list[str] = []

    def report(self, broker_id: str) -> LoadReport:
        stored = self._stored
        owned = self._bundle_names("bundles")
        total = self._load(
            "total",
            {
                **{name: stored.get(name) for name in _RATES},
                "consumerCount": stored.get("numConsumers"),
                "producerCount": stored.get("numProducers"),
                "topics": stored.get("numTopics"),
            },
        )
        return LoadReport(
            broker_id,
            updated_ms=self._count("lastUpdate", stored.get("lastUpdate")),
            cpu=self._usage("cpu"),
            bandwidth_in=self._usage("bandwidthIn"),
            bandwidth_out=self._usage("bandwidthOut"),
            total=total,
            bundles=self._bundles(),
            listed=len(stored.get("lastStats") or ()) if stored.get("moreStats") else None,
            owned=owned,
            owned_count=self._count("numBundles", stored.get("numBundles")),
            gains=self._bundle_names("lastBundleGains"),
            losses=self._bundle_names("lastBundleLosses"),
            ours=bool(stored.get("adminRpcUrl")),
            faults=tuple(self._faults),
        )

    def _fault(self, name: str, value: object) -> None:
        self._faults.append(f"{name} is {str(value)[:40]}")

    def _number(self, name: str, value: object) -> float | None:
        """Return a number >= 0, None for a missing one; any other value is a fault and None."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._fault(name, value)
            return None
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or number < 0:
            self._fault(name, value)
            return None
        return number

    def _count(self, name: str, value: object) -> int | None:
        number = self._number(name, value)
        return None if number is None else int(number)

    def _usage(self, name: str) -> ResourceUsage | None:
        stored = self._stored.get(name)
        if stored is None:
            return None
        if not isinstance(stored, dict):
            self._fault(name, stored)
            return None
        limit = stored.get("limit")
        # Apache's brokers write a limit of 0 before the first measurement, and a negative one for an unknown NIC.
        if isinstance(limit, int | float) and limit <= 0:
            return None
        used, most = self._number(name, stored.get("usage")), self._number(f"{name} limit", limit)
        if used is None or most is None:
            return None
        if used / most > SHARE_MAX:
            self._fault(name, f"{used:g} of {most:g}")
            return None
        return ResourceUsage(used, most)

    def _load(self, name: str, stored: object) -> BundleLoad | None:
        """Return the load in NamespaceBundleStats; None when it is incomplete or a fault."""
        if not isinstance(stored, dict):
            self._fault(name, stored)
            return None
        rates = [self._number(f"{name} {key}", stored.get(key)) for key in _RATES]
        counts = [self._count(f"{name} {key}", stored.get(key)) for key in _COUNTS]
        if None in rates or None in counts:
            return None
        return BundleLoad._make((*rates, *counts, ""))

    def _bundles(self) -> Mapping[BundleName, BundleLoad]:
        stored = self._stored.get("lastStats") or {}
        hot_topics = self._stored.get("hotTopics") or {}
        if not isinstance(stored, dict) or not isinstance(hot_topics, dict):
            self._fault("lastStats", stored)
            return {}
        loads: dict[BundleName, BundleLoad] = {}
        for name, stats in (stored | self._more()).items():
            bundle = self._bundle("lastStats", name)
            load = self._load(name, stats)
            if bundle is not None and load is not None:
                loads[bundle] = load._replace(hot_topic=str(hot_topics.get(name) or ""))
        return loads

    def _more(self) -> dict[str, Any]:
        """Return the further bundles of our brokers, in the form of ``lastStats``."""
        more = self._stored.get("moreStats") or {}
        if not isinstance(more, dict):
            self._fault("moreStats", more)
            return {}
        order = (*_RATES, *_COUNTS)
        return {
            name: dict(zip(order, numbers, strict=False)) if isinstance(numbers, list) else numbers
            for name, numbers in more.items()
        }

    def _bundle_names(self, name: str) -> tuple[BundleName, ...]:
        stored = self._stored.get(name) or []
        if not isinstance(stored, list):
            self._fault(name, stored)
            return ()
        bundles = [self._bundle(name, text) for text in stored]
        return tuple(bundle for bundle in bundles if bundle is not None)

    def _bundle(self, name: str, text: object) -> BundleName | None:
        bundle = find_bundle(str(text))
        if bundle is None:
            self._fault(name, text)
        return bundle


@lru_cache(maxsize=20_000)
def find_bundle(text: str) -> BundleName | None:
    """Return the bundle ``tenant/namespace/0x…_0x…``, None for no such name.

    Results are kept, because every report repeats the names of the previous one.
    """
    try:
        namespace, _, range_text = text.rpartition("/")
        return BundleName.parse(NamespaceName.parse(namespace), range_text)
    except InvalidNameError:
        return None
