"""Writes the dashboards in ``dashboards/``: ``python deploy/grafana/generate.py``; with ``--check`` it only compares.

A row of a dashboard is a list of panels, a panel a title, a unit and its queries with their legends.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "dashboards"
WIDTH, HEIGHT = 24, 8
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
HERE = 'instance=~"$instance"'
TOPIC = 'namespace=~"$namespace",topic=~"$topic"'
RATE = "$__rate_interval"


class Panel(NamedTuple):
    """A chart, or with ``kind`` ``stat`` a number."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    """PromQL and legend."""
    kind: str = "timeseries"


class Dashboard(NamedTuple):
    """A page: variables by name with the query of their values, and rows by title."""

    title: str
    variables: dict[str, str]
    rows: dict[str, Sequence[Panel]]


def per_s(family: str, where: str = HERE, by: str = "instance") -> str:
    """Return the query of a counter's growth each second."""
    return f"sum by ({by}) (rate({family}{{{where}}}[{RATE}]))"


def by_instance(title: str, unit: str, expression: str) -> Panel:
    """Return a chart with a line for each process."""
    return Panel(title, unit, [(expression, "{{instance}}")])


def process_row(job: str) -> Sequence[Panel]:
    """Return the row about the processes of a job."""
    where = f'job="magnetar-{job}",{HERE}'
    return (
        by_instance("Processor", "percentunit", per_s("process_cpu_seconds_total", where)),
        by_instance("Memory", "bytes", f"process_resident_memory_bytes{{{where}}}"),
        by_instance("File descriptors", "short", f"process_open_fds{{{where}}}"),
    )


OVERVIEW = Dashboard(
    "Magnetar / Overview",
    {"instance": 'label_values(up{job=~"magnetar-.*"}, instance)'},
    {
        "Now": (
            Panel("Brokers", "short", [('sum(up{job="magnetar-broker"})', "up")], "stat"),
            Panel(
                "Writable bookies", "short", [("sum(bookie_SERVER_STATUS == bool 1)", "")], "stat"
            ),
            Panel("Topics", "short", [("sum(pulsar_broker_topics_count)", "")], "stat"),
            Panel("Producers", "short", [("sum(pulsar_broker_producers_count)", "")], "stat"),
            Panel("Consumers", "short", [("sum(pulsar_broker_consumers_count)", "")], "stat"),
            Panel("Backlog", "short", [("sum(pulsar_broker_msg_backlog)", "")], "stat"),
        ),
        "Messages": (
            Panel(
                "Messages each second",
                "cps",
                [("sum(pulsar_broker_rate_in)", "in"), ("sum(pulsar_broker_rate_out)", "out")],
            ),
            Panel(
                "Bytes each second",
                "Bps",
                [
                    ("sum(pulsar_broker_throughput_in)", "in"),
                    ("sum(pulsar_broker_throughput_out)", "out"),
                ],
            ),
            Panel("Backlog", "short", [("sum(pulsar_broker_msg_backlog)", "messages")]),
        ),
        "Brokers": (
            by_instance(
                "Busy share of the event loop", "percent", f"pulsar_lb_cpu_usage{{{HERE}}}"
            ),
            by_instance("Topics", "short", f"pulsar_broker_topics_count{{{HERE}}}"),
            by_instance("Connections", "short", f"pulsar_active_connections{{{HERE}}}"),
            Panel(
                "Lookups each second",
                "cps",
                [
                    (per_s("pulsar_broker_lookup_answers_total"), "{{instance}} answered"),
                    (per_s("pulsar_broker_lookup_failures_total"), "{{instance}} refused"),
                ],
            ),
            Panel(
                "Time to load a topic",
                "ms",
                [(f'pulsar_topic_load_times{{quantile="0.99",{HERE}}}', "{{instance}} p99")],
            ),
            Panel(
                "Stores that answer",
                "short",
                [(f"magnetar_metadata_store_connected{{{HERE}}}", "{{instance}} {{store}}")],
            ),
        ),
        "Cache of entries": (
            by_instance("Size", "bytes", f"pulsar_ml_cache_used_size{{{HERE}}}"),
            by_instance(
                "Entries not in it, each second", "cps", f"pulsar_ml_cache_misses_rate{{{HERE}}}"
            ),
            Panel(
                "Bundles",
                "short",
                [
                    (f"pulsar_lb_unload_bundle_total{{{HERE}}}", "{{instance}} moved"),
                    (f"pulsar_lb_bundles_split_total{{{HERE}}}", "{{instance}} split"),
                ],
            ),
        ),
        "Security": (
            Panel(
                "Sign-ins each second",
                "cps",
                [
                    (per_s("pulsar_authentication_success_total"), "{{instance}} accepted"),
                    (per_s("pulsar_authentication_failures_total"), "{{instance}} refused"),
                ],
            ),
            Panel(
                "Commands without a right, each second",
                "cps",
                [(per_s("magnetar_commands_refused_total", HERE, "command"), "{{command}}")],
            ),
            by_instance(
                "Connections above a limit, each second",
                "cps",
                per_s("magnetar_connections_refused_total"),
            ),
        ),
        "Processes": process_row("broker"),
    },
)

WRITE_MS = ("0_5", "1", "5", "10", "20", "50", "100", "200", "1000")
TOPICS = Dashboard(
    "Magnetar / Topic",
    {
        "namespace": "label_values(pulsar_topics_count, namespace)",
        "topic": 'label_values(pulsar_msg_backlog{namespace=~"$namespace"}, topic)',
    },
    {
        "Messages": (
            Panel(
                "Messages each second",
                "cps",
                [
                    (f"pulsar_rate_in{{{TOPIC}}}", "{{topic}} in"),
                    (f"pulsar_rate_out{{{TOPIC}}}", "{{topic}} out"),
                ],
            ),
            Panel(
                "Bytes each second",
                "Bps",
                [
                    (f"pulsar_throughput_in{{{TOPIC}}}", "{{topic}} in"),
                    (f"pulsar_throughput_out{{{TOPIC}}}", "{{topic}} out"),
                ],
            ),
            Panel(
                "Producers and consumers",
                "short",
                [
                    (f"pulsar_producers_count{{{TOPIC}}}", "{{topic}} producers"),
                    (f"pulsar_consumers_count{{{TOPIC}}}", "{{topic}} consumers"),
                ],
            ),
        ),
        "Storage": (
            Panel("Stored", "bytes", [(f"pulsar_storage_size{{{TOPIC}}}", "{{topic}}")]),
            Panel("Backlog", "bytes", [(f"pulsar_storage_backlog_size{{{TOPIC}}}", "{{topic}}")]),
            Panel(
                "Age of the oldest message that is not acknowledged",
                "s",
                [(f"pulsar_storage_backlog_age_seconds{{{TOPIC}}}", "{{topic}}")],
            ),
            Panel(
                "Entries by the time to store them (last minute)",
                "short",
                [
                    (
                        f"sum(pulsar_storage_write_latency_le_{ms}{{{TOPIC}}})",
                        f"{ms.replace('_', '.')} ms",
                    )
                    for ms in WRITE_MS
                ]
                + [(f"sum(pulsar_storage_write_latency_overflow{{{TOPIC}}})", "more")],
            ),
            Panel(
                "Entries written each second",
                "cps",
                [(f"pulsar_storage_write_rate{{{TOPIC}}}", "{{topic}}")],
            ),
            Panel(
                "Entries read from bookies each second",
                "cps",
                [(f"pulsar_storage_read_cache_misses_rate{{{TOPIC}}}", "{{topic}}")],
            ),
        ),
        "Subscriptions": tuple(
            Panel(title, unit, [(f"{family}{{{TOPIC}}}", "{{topic}} {{subscription}}")])
            for title, unit, family in (
                ("Backlog", "short", "pulsar_subscription_back_log"),
                ("Sent each second", "cps", "pulsar_subscription_msg_rate_out"),
                ("Acknowledged each second", "cps", "pulsar_subscription_msg_ack_rate"),
                ("Sent and not acknowledged", "short", "pulsar_subscription_unacked_messages"),
                ("Sent again each second", "cps", "pulsar_subscription_msg_rate_redeliver"),
                ("Delayed", "short", "pulsar_subscription_delayed"),
            )
        ),
    },
)

BOOKIES = Dashboard(
    "Magnetar / Bookie",
    {"instance": "label_values(bookie_ready, instance)"},
    {
        "Now": (
            Panel("Writable", "short", [("sum(bookie_SERVER_STATUS == bool 1)", "")], "stat"),
            Panel("Read-only", "short", [("sum(bookie_read_only)", "")], "stat"),
            Panel(
                "Not registered", "short", [("sum(bookie_SERVER_STATUS == bool -1)", "")], "stat"
            ),
        ),
        "Entries": (
            by_instance("Added each second", "cps", per_s("bookie_entries_added_total")),
            by_instance("Read each second", "cps", per_s("bookie_entries_read_total")),
            Panel(
                "Refused each second",
                "cps",
                [
                    (
                        per_s("bookie_add_failures_total", HERE, "instance, code"),
                        "{{instance}} add {{code}}",
                    ),
                    (
                        per_s("bookie_read_failures_total", HERE, "instance, code"),
                        "{{instance}} read {{code}}",
                    ),
                ],
            ),
            by_instance("Bytes added each second", "Bps", per_s("bookie_bytes_added_total")),
            by_instance("Bytes read each second", "Bps", per_s("bookie_bytes_read_total")),
            by_instance("Damaged reads", "short", f"bookie_damaged_reads_total{{{HERE}}}"),
        ),
        "Journal and entry logs": (
            by_instance("Syncs each second", "cps", per_s("bookie_journal_groups_total")),
            by_instance(
                "Bytes in one sync",
                "bytes",
                f"{per_s('bookie_journal_bytes_total')} / {per_s('bookie_journal_groups_total')}",
            ),
            by_instance(
                "Waiting for the journal", "bytes", f"bookie_journal_pending_bytes{{{HERE}}}"
            ),
            by_instance("Waiting for entry logs", "bytes", f"bookie_write_cache_bytes{{{HERE}}}"),
            by_instance("Flushed each second", "Bps", per_s("bookie_flushed_bytes_total")),
            by_instance("Reads that wait", "short", f"bookie_reads_pending{{{HERE}}}"),
        ),
        "Space": (
            by_instance("Free", "bytes", f"bookie_ledger_dir_free_bytes{{{HERE}}}"),
            Panel(
                "Entry logs",
                "bytes",
                [
                    (f"bookie_entry_log_bytes{{{HERE}}}", "{{instance}} all"),
                    (f"bookie_entry_log_live_bytes{{{HERE}}}", "{{instance}} of ledgers in use"),
                ],
            ),
            by_instance("Ledgers", "short", f"bookie_ledgers{{{HERE}}}"),
            by_instance(
                "Ledgers deleted each second", "cps", per_s("bookie_ledgers_deleted_total")
            ),
            by_instance(
                "Freed by compaction each second",
                "Bps",
                per_s("bookie_compaction_freed_bytes_total"),
            ),
            by_instance(
                "Share of reads from memory",
                "percentunit",
                f"{per_s('bookie_read_cache_hits_total')} / ({per_s('bookie_read_cache_hits_total')}"
                f" + {per_s('bookie_read_cache_misses_total')})",
            ),
        ),
        "Processes": process_row("bookie"),
    },
)

PROXIES = Dashboard(
    "Magnetar / Proxy",
    {"instance": "label_values(pulsar_proxy_active_connections, instance)"},
    {
        "Connections": (
            by_instance("Open", "short", f"pulsar_proxy_active_connections{{{HERE}}}"),
            by_instance("New each second", "cps", per_s("pulsar_proxy_new_connections_total")),
            Panel(
                "Refused each second",
                "cps",
                [
                    (
                        per_s("pulsar_proxy_rejected_connections_total"),
                        "{{instance}} above a limit",
                    ),
                    (per_s("magnetar_proxy_refused_targets_total"), "{{instance}} no broker"),
                ],
            ),
        ),
        "Traffic": (
            by_instance("Copied each second", "Bps", per_s("pulsar_proxy_binary_bytes_total")),
            by_instance("Known brokers", "short", f"magnetar_proxy_known_brokers{{{HERE}}}"),
            Panel(
                "Sign-ins each second",
                "cps",
                [
                    (per_s("pulsar_authentication_success_total"), "{{instance}} accepted"),
                    (per_s("pulsar_authentication_failures_total"), "{{instance}} refused"),
                ],
            ),
        ),
        "Requests": (
            Panel(
                "Each second",
                "cps",
                [
                    (per_s(f"pulsar_proxy_{kind}_requests_total"), f"{{{{instance}}}} {kind}")
                    for kind in (
                        "lookup",
                        "partitions_metadata",
                        "get_topics_of_namespace",
                        "get_schema",
                    )
                ],
            ),
            Panel(
                "Refused each second",
                "cps",
                [
                    (
                        per_s(f"pulsar_proxy_rejected_{kind}_requests_total"),
                        f"{{{{instance}}}} {kind}",
                    )
                    for kind in (
                        "lookup",
                        "partitions_metadata",
                        "get_topics_of_namespace",
                        "get_schema",
                    )
                ],
            ),
            by_instance(
                "Waiting for brokers", "short", f"magnetar_proxy_requests_in_flight{{{HERE}}}"
            ),
        ),
        "Processes": process_row("proxy"),
    },
)

REQUESTS = "magnetar_gateway_requests_total"
GATEWAYS = Dashboard(
    "Magnetar / Gateway",
    {"instance": 'label_values(up{job="magnetar-gateway"}, instance)'},
    {
        "Requests": (
            Panel(
                "By status, each second", "cps", [(per_s(REQUESTS, HERE, "status"), "{{status}}")]
            ),
            Panel(
                "By method, each second", "cps", [(per_s(REQUESTS, HERE, "method"), "{{method}}")]
            ),
            by_instance(
                "Share of errors (500 and above)",
                "percentunit",
                f'sum by (instance) (rate({REQUESTS}{{status=~"5..",{HERE}}}[{RATE}]))'
                f" / {per_s(REQUESTS)}",
            ),
        ),
        "Brokers": (
            Panel("Answering", "short", [(f"magnetar_gateway_broker_up{{{HERE}}}", "{{broker}}")]),
            Panel(
                "Files of keys that cannot be used",
                "short",
                [(f"magnetar_gateway_secret_file_unusable{{{HERE}}}", "{{setting}}")],
            ),
        ),
        "Processes": process_row("gateway"),
    },
)

DASHBOARDS = {
    "overview": OVERVIEW,
    "topic": TOPICS,
    "bookie": BOOKIES,
    "proxy": PROXIES,
    "gateway": GATEWAYS,
}
"""Dashboards by file name."""


def rendered(name: str, dashboard: Dashboard) -> dict[str, Any]:
    """Return a dashboard in Grafana's form."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in dashboard.rows.items():
        panels.append(_row(len(panels) + 1, title, top))
        top += 1
        columns = 6 if row[0].kind == "stat" else 3
        height = HEIGHT // 2 if row[0].kind == "stat" else HEIGHT
        for index, panel in enumerate(row):
            place = {
                "x": index % columns * (WIDTH // columns),
                "y": top + index // columns * height,
                "w": WIDTH // columns,
                "h": height,
            }
            panels.append(_panel(len(panels) + 1, panel, place))
        top += -(-len(row) // columns) * height
    variables: list[dict[str, Any]] = [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    ]
    variables += [_variable(variable, query) for variable, query in dashboard.variables.items()]
    return {
        "uid": f"magnetar-{name}",
        "title": dashboard.title,
        "tags": ["magnetar"],
        "editable": True,
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [
            {
                "type": "dashboards",
                "title": "Magnetar",
                "tags": ["magnetar"],
                "asDropdown": True,
                "includeVars": False,
                "keepTime": True,
            }
        ],
        "templating": {"list": variables},
        "panels": panels,
    }


def _row(number: int, title: str, top: int) -> dict[str, Any]:
    place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place}


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": SOURCE,
            "expr": query,
            "legendFormat": legend,
        }
        for index, (query, legend) in enumerate(panel.queries)
    ]
    shown: dict[str, Any] = {"fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []}}
    if panel.kind == "timeseries":
        shown["fieldConfig"]["defaults"]["custom"] = {"fillOpacity": 10, "showPoints": "never"}
        shown["options"] = {"tooltip": {"mode": "multi"}, "legend": {"displayMode": "list"}}
    else:
        shown["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": place,
        "targets": targets,
        **shown,
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def main(arguments: Sequence[str]) -> int:
    """Write the files, or report those that differ and return 1."""
    different = []
    for name, dashboard in DASHBOARDS.items():
        path = FOLDER / f"{name}.json"
        text = json.dumps(rendered(name, dashboard), indent=1) + "\n"
        if not path.exists() or path.read_text() != text:
            different.append(path.name)
            if "--check" not in arguments:
                path.write_text(text)
    if "--check" in arguments and different:
        print(f"differ from generate.py: {', '.join(different)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
