"""The rules as a Prometheus rule file, and a Grafana dashboard of their figures. Pure.

Prometheus reads what brokers serve at ``/metrics``: backlogs are in entries there, and what needs attention has no
metric. A rule without an expression is a comment with the reason.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from gateway.alerts.definitions import FIGURES, Definition, RuleKind
from gateway.alerts.models import AlertRule

METRICS = {
    "topics": "pulsar_topics_count",
    "producers": "pulsar_producers_count",
    "consumers": "pulsar_consumers_count",
    "subscriptions": "pulsar_subscriptions_count",
    "msg_rate_in": "pulsar_rate_in",
    "msg_rate_out": "pulsar_rate_out",
    "bytes_rate_in": "pulsar_throughput_in",
    "bytes_rate_out": "pulsar_throughput_out",
    "backlog": "pulsar_msg_backlog",
    "storage_bytes": "pulsar_storage_logical_size",
    "oldest_age": "pulsar_storage_backlog_age_seconds",
}
"""Metrics of topics by figure."""
OF_SUBSCRIPTIONS = {
    "backlog": "pulsar_subscription_back_log",
    "msg_rate_out": "pulsar_subscription_msg_rate_out",
}
OF_LINKS = {
    "backlog": "pulsar_replication_backlog",
    "oldest_age": "pulsar_replication_delay_in_seconds",
    "messages": "pulsar_replication_rate_out",
    "bytes": "pulsar_replication_throughput_out",
    "received_messages": "pulsar_replication_rate_in",
    "received_bytes": "pulsar_replication_throughput_in",
    "stopped": "pulsar_replication_disconnected_count",
}
OF_BROKERS = {
    "topics": "pulsar_broker_topics_count",
    "msg_rate_in": "pulsar_broker_rate_in",
    "msg_rate_out": "pulsar_broker_rate_out",
    "bytes_rate_in": "pulsar_broker_throughput_in",
    "bytes_rate_out": "pulsar_broker_throughput_out",
}
OF_BOOKIES = {
    "usage": "bookie_disk_usage_ratio",
    "used_bytes": "bookie_ledger_dir_used_bytes",
    "free_bytes": "bookie_ledger_dir_free_bytes",
    "stored_bytes": "bookie_stored_bytes",
    "ledgers": "bookie_ledgers_count",
    "read_only": "bookie_read_only",
}
"""Metrics of bookies, which have no label of their cluster: a rule file is of one Prometheus that reads one cluster."""
GROUP = "magnetar-alerts"


class NoMetricError(ValueError):
    """A rule that Prometheus cannot evaluate; the text has the reason."""


def expression(rule: Definition, cluster: str) -> str:
    """Return the expression that has a sample for each object that meets a rule. Raises NoMetricError."""
    order = ">" if rule.above else "<"
    return f"{series(rule, cluster)} {order} {_number(rule.threshold)}"


def series(rule: Definition, cluster: str) -> str:
    """Return the expression of the figure that a rule compares. Raises NoMetricError."""
    if rule.part:
        raise NoMetricError(
            f"Prometheus knows a {rule.kind} by its address and not as {rule.part}: "
            f"make a rule about each {rule.kind}"
        )
    labels = [] if rule.kind is RuleKind.BOOKIE else [("cluster", "=", cluster)]
    scope = rule.scope
    if scope.topic:
        # A partitioned topic is the sum of its partitions.
        labels.append(("topic", "=~", f"{_quoted(scope.topic)}(-partition-[0-9]+)?"))
    elif scope.namespace:
        labels.append(("namespace", "=", scope.namespace))
    elif scope.tenant:
        labels.append(("namespace", "=~", f"{_quoted(scope.tenant)}/.*"))
    metric, by = _metric(rule)
    if rule.subscription:
        labels.append(("subscription", "=", rule.subscription))
    if rule.remote:
        labels.append(("remote_cluster", "=", rule.remote))
    chosen = ",".join(f"{name}{test}{_literal(value)}" for name, test, value in labels)
    how = "max" if rule.figure == "oldest_age" else "sum"
    inner = f"{metric}{{{chosen}}}" if chosen else metric
    if (rule.kind, rule.figure) == (RuleKind.BOOKIE, "usage"):
        inner = f"100 * {inner}"
    if "topic" in by:
        # The partition first, in a label of its own: Prometheus refuses two series with the same labels.
        inner = f'label_replace({inner}, "partition", "$1", "topic", ".*-partition-([0-9]+)")'
        inner = f'label_replace({inner}, "topic", "$1", "topic", "(.*)-partition-[0-9]+")'
    return f"{how} by ({', '.join(by)}) ({inner})"


def _metric(rule: Definition) -> tuple[str, tuple[str, ...]]:
    match rule.kind:
        case RuleKind.ATTENTION:
            raise NoMetricError("what needs attention has no metric: the console derives it")
        case RuleKind.TOTALS:
            return METRICS[rule.figure], ("cluster",)
        case RuleKind.TOPIC:
            return METRICS[rule.figure], ("cluster", "namespace", "topic")
        case RuleKind.SUBSCRIPTION:
            labels = ("cluster", "namespace", "topic", "subscription")
            return OF_SUBSCRIPTIONS[rule.figure], labels
        case RuleKind.LINK:
            return OF_LINKS[rule.figure], ("cluster", "remote_cluster")
        case RuleKind.BROKER | RuleKind.BOOKIE:
            if rule.figure == "report_age":
                raise NoMetricError("a part that does not answer has no metric: use up == 0")
            of_kind = OF_BROKERS if rule.kind is RuleKind.BROKER else OF_BOOKIES
            return of_kind[rule.figure], ("instance",)


def prometheus_rules(rules: Iterable[AlertRule], cluster: str) -> str:
    """Return a rule file for Prometheus, YAML."""
    lines = ["# Made from the alert rules of the console.", "groups:"]
    lines += [f"  - name: {_literal(f'{GROUP}-{cluster}')}", "    rules:"]
    count = 0
    for record in rules:
        rule = Definition.checked(record.definition, record.tenant)
        try:
            text = expression(rule, cluster)
        except NoMetricError as error:
            lines.append(f"      # {_one_line(record.name)}: {error}")
            continue
        count += 1
        lines += [
            f"      - alert: {_literal(record.name)}",
            f"        expr: {_literal(text)}",
            f"        for: {record.for_s}s",
            "        labels:",
            f"          severity: {_literal(record.severity)}",
            "        annotations:",
            f"          summary: {_literal(_plain(rule.words))}",
            '          description: "{{ $labels }}: {{ $value }}"',
        ]
    if not count:
        lines[3] = "    rules: []"
    return "\n".join(lines) + "\n"


def dashboard(rules: Sequence[AlertRule], cluster: str) -> dict[str, Any]:
    """Return a Grafana dashboard with the figures of the rules and their thresholds."""
    panels: list[dict[str, Any]] = []
    for record in rules:
        rule = Definition.checked(record.definition, record.tenant)
        try:
            text = series(rule, cluster)
        except NoMetricError:
            continue
        panels.append(_panel(len(panels), record.name, rule, text))
    return {
        "title": f"Alerts of {cluster}",
        "schemaVersion": 39,
        "tags": ["magnetar"],
        "time": {"from": "now-3h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Data source",
                    "type": "datasource",
                    "query": "prometheus",
                }
            ]
        },
        "panels": panels,
    }


def _panel(index: int, name: str, rule: Definition, text: str) -> dict[str, Any]:
    figure = FIGURES[rule.kind][rule.figure]
    beyond, other = ("red", "green") if rule.above else ("green", "red")
    steps = [{"color": other, "value": None}, {"color": beyond, "value": rule.threshold}]
    source = {"type": "prometheus", "uid": "${datasource}"}
    unit = {"s": "s", "B": "bytes", "B/s": "Bps", "messages/s": "mps", "%": "percent"}.get(
        figure.unit, "short"
    )
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": name,
        "description": rule.words,
        "datasource": source,
        "gridPos": {"h": 8, "w": 12, "x": index % 2 * 12, "y": index // 2 * 8},
        "targets": [{"refId": "A", "datasource": source, "expr": f"topk(20, {text})"}],
        "fieldConfig": {
            "defaults": {
                "unit": unit,
                "thresholds": {"mode": "absolute", "steps": steps},
                "custom": {"thresholdsStyle": {"mode": "line"}},
            },
            "overrides": [],
        },
    }


def _literal(text: str) -> str:
    """Return a text in double quotes as YAML and PromQL both read it.

    JSON writes a character beyond the first 65,536 as two surrogates, which both refuse.
    """
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in quoted)


def _number(value: float) -> str:
    """Return a number with all its digits."""
    return str(int(value)) if value == int(value) else repr(value)


def _quoted(text: str) -> str:
    """Return a text as a regular expression of RE2 that matches it alone. RE2 refuses a backslash before a sign that is
    not ASCII."""
    plain = frozenset("/:_-")
    return "".join(
        sign if not sign.isascii() or sign.isalnum() or sign in plain else f"\\{sign}"
        for sign in text
    )


def _one_line(text: str) -> str:
    """Return a text without what YAML takes for the end of a line, or refuses in a comment."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def _plain(text: str) -> str:
    """Return a text that Prometheus does not take for a template."""
    return re.sub(r"\{(?=\{)", "{ ", text)
