"""The rule file and the dashboard, against the metrics that an instance serves."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.alerts.definitions import FIGURES, Definition, RuleKind
from gateway.alerts.exports import NoMetricError, dashboard, expression, prometheus_rules
from gateway.alerts.models import AlertRule
from tests.support.net.promtool import tool

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "metrics.md"
SERVED = frozenset(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))


def rule(name: str = "deep", **given: Any) -> AlertRule:
    definition = Definition.checked(given, "").stored()
    return AlertRule(name=name, tenant="", severity="error", definition=definition, for_s=90)


@pytest.mark.parametrize(
    ("kind", "figure"),
    [(kind, figure) for kind, figures in FIGURES.items() for figure in figures],
)
def test_each_figure_is_a_metric_that_is_served(kind: RuleKind, figure: str) -> None:
    definition = Definition.checked({"kind": kind, "figure": figure, "threshold": 5}, "")
    if figure == "report_age":
        with pytest.raises(NoMetricError, match="up == 0"):
            expression(definition, "c")
        return
    names = set(re.findall(r"(?:pulsar|bookie)_\w+", expression(definition, "c")))
    assert names
    assert names <= SERVED


def test_a_scope_becomes_labels() -> None:
    topic = Definition.checked(
        {"kind": "topic", "figure": "backlog", "scope": "persistent://t/n/a.b", "op": "below"}, ""
    )
    text = expression(topic, "c")
    assert r'topic=~"persistent://t/n/a\\.b(-partition-[0-9]+)?"' in text
    assert text.endswith(" < 0")
    tenant = Definition.checked({"kind": "topic", "figure": "backlog", "scope": "t"}, "")
    assert 'namespace=~"t/.*"' in expression(tenant, "c")


def test_a_part_is_known_to_prometheus_by_its_address_alone() -> None:
    every = Definition.checked({"kind": "bookie", "figure": "usage", "threshold": 85}, "")
    assert expression(every, "c") == "sum by (instance) (100 * bookie_disk_usage_ratio) > 85"
    named = Definition.checked({"kind": "broker", "figure": "topics", "part": "b:1"}, "")
    with pytest.raises(NoMetricError, match="not as b:1"):
        expression(named, "c")


def test_a_rule_without_a_metric_is_a_comment_with_the_reason() -> None:
    text = prometheus_rules([rule("a\nb", kind="attention")], "c")
    assert "# a b: what needs attention has no metric" in text
    assert "    rules: []" in text


def test_the_rule_file_and_the_dashboard_have_a_rule_each() -> None:
    rules = [rule(kind="totals", figure="backlog", threshold=10), rule("x", kind="attention")]
    text = prometheus_rules(rules, "c")
    assert "        for: 90s" in text
    assert '          severity: "error"' in text
    document = dashboard(rules, "c")
    # Grafana's schema has no null here: without the member it makes an id.
    assert "uid" not in document
    (panel,) = document["panels"]
    assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1]["value"] == 10


def test_prometheus_accepts_the_rule_file(tmp_path: Path) -> None:
    topic = 'persistent://t/n/a "b" (1)\\d'
    rules = [
        rule(f"{kind} {figure}\n{{{{ 1", kind=kind, figure=figure, threshold=1e9)
        for kind, figures in FIGURES.items()
        for figure in figures
        if figure != "report_age"
    ]
    rules += [rule("topic", kind="topic", figure="backlog", scope=topic), rule(kind="attention")]
    file = tmp_path / "alerts.yml"
    file.write_text(prometheus_rules(rules, 'c"\\'))
    command = [tool("promtool"), "check", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules) - 1} rules found" in done.stdout


NAMES = (
    "\U0001f525 fire",
    "{{{{{ x",
    "a\u2028b",
    "\ufeff\x7f\x9f",
    "caf\u00e9 \u20ac",
    "a\u00a0b",
    '"\\',
)
"""Names with what JSON, YAML, PromQL, RE2 or templates treat each in another way."""


def test_prometheus_accepts_any_name_and_reads_the_same_one(tmp_path: Path) -> None:
    rules = [rule(kind="topic", figure="backlog", scope=f"persistent://t/n/{i}") for i in range(7)]
    for record, name in zip(rules, NAMES, strict=True):
        record.name = f"{name} named"
        record.definition["scope"] = f"persistent://t/n/{name}"
    rules += [rule(name, kind="attention") for name in NAMES]
    file = tmp_path / "alerts.yml"
    file.write_text(prometheus_rules(rules, "\U0001f525"))
    command = [tool("promtool"), "check", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (group,) = yaml.safe_load(file.read_text())["groups"]
    assert [item["alert"] for item in group["rules"]] == [f"{name} named" for name in NAMES]
    assert all("{{" not in item["annotations"]["summary"] for item in group["rules"])


@pytest.mark.parametrize(
    "threshold", [1_234_567, 0.1, 1e18, 999_999_999.5, -3, 9_007_199_254_740_991]
)
def test_a_threshold_has_all_its_digits(threshold: float) -> None:
    definition = Definition.checked(
        {"kind": "totals", "figure": "storage_bytes", "threshold": threshold}, ""
    )
    assert float(expression(definition, "c").rpartition(" ")[2]) == threshold
