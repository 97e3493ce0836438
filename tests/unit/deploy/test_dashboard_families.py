"""Dashboards made for Apache Pulsar: each family of their panels is served, or the guide lists it with the reason.

``dashboard_families.txt`` has the names in the queries of github.com/streamnative/apache-pulsar-grafana-dashboard at
9a61a26, without those that only its pages of ZooKeeper use.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from tests.support.import_graph import ROOT

NAMES = Path(__file__).with_name("dashboard_families.txt").read_text().split()
GUIDE = (ROOT / "docs" / "guides" / "monitor.md").read_text()
WITHOUT_QUANTILES = {
    *(
        f"bookkeeper_server_{kind}_ENTRY{end}"
        for kind in ("ADD", "READ")
        for end in ("", "_REQUEST")
    ),
    *("bookie_journal_JOURNAL_ADD_ENTRY", "bookie_journal_JOURNAL_SYNC"),
}
"""Families that only count: the guide lists their quantiles as absent."""
PARTS = ("_bucket", "_count", "_sum")
"""Ends of the samples of one family."""
SERVED = set(
    re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "reference" / "metrics.md").read_text(), re.M)
)


def absent() -> set[str]:
    """Return the patterns of the guide's table of families that are not there."""
    table = GUIDE.partition("| absent | reason |")[2].partition("\n#")[0]
    first = re.findall(r"^\|([^|]+)\|", table, re.M)
    return {pattern for cell in first for pattern in re.findall(r"`([\w*]+)`", cell)}


def matched(name: str, patterns: Iterable[str]) -> bool:
    family = next((name.removesuffix(end) for end in PARTS if name.endswith(end)), name)
    return any(fnmatchcase(name, p) or fnmatchcase(family, p) for p in patterns)


def test_each_family_of_the_dashboards_is_served_or_listed_as_absent() -> None:
    assert len(NAMES) > 250
    patterns = absent() | {"quorum_size", "zookeeper_*"}
    assert [name for name in NAMES if not matched(name, SERVED | patterns)] == []


def test_no_family_that_is_served_is_listed_as_absent() -> None:
    listed = {name for name in SERVED if any(fnmatchcase(name, p) for p in absent())}
    assert listed == WITHOUT_QUANTILES


def test_each_name_of_bookkeeper_that_the_guide_promises_is_served() -> None:
    text = GUIDE.partition("## Dashboards made for Apache Pulsar")[2].partition("| absent |")[0]
    promised = re.findall(r"`(book\w+)`", text)
    assert len(promised) > 10
    assert [name for name in promised if not matched(name, SERVED)] == []
