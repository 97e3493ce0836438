"""Dashboards and alerts as files: generated, readable by Prometheus, each alert with its page; and how queries are
read."""

import importlib.util
import json
import re
import subprocess
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.support.import_graph import ROOT
from tests.support.net.promql import selectors
from tests.support.net.promtool import tool

DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "rules" / "magnetar.yml"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DEPLOY / "grafana" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.mark.parametrize(
    ("query", "families"),
    [
        ("sum(up)", [("up", set())]),
        (
            'sum by (a, b) (rate(x_total{c=~"{d}",e!="f g"}[$__rate_interval])) / y > bool 0.5',
            [("x_total", {"a", "b", "c", "e"}), ("y", {"a", "b"})],
        ),
        ("increase(a_b[15m]) > 0 or c == 1", [("a_b", set()), ("c", set())]),
    ],
)
def test_the_series_of_a_query_are_found(query: str, families: list[tuple[str, set[str]]]) -> None:
    assert [(item.family, set(item.labels)) for item in selectors(query)] == families


def test_the_dashboards_are_those_of_the_generator(generator: ModuleType) -> None:
    assert generator.main(["--check"]) == 0


def test_panels_do_not_cover_each_other(generator: ModuleType) -> None:
    for name in generator.DASHBOARDS:
        taken: dict[tuple[int, int], str] = {}
        document = json.loads((DEPLOY / "grafana" / "dashboards" / f"{name}.json").read_text())
        assert document["uid"] == f"magnetar-{name}"
        for panel in document["panels"]:
            place = panel["gridPos"]
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    assert x < generator.WIDTH
                    assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_each_alert_says_what_happens_and_links_to_what_to_do() -> None:
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names)
    page = (ROOT / "docs" / "guides" / "monitor.md").read_text()
    anchors = {title.lower() for title in re.findall(r"^### (Magnetar\w+)$", page, re.M)}
    assert anchors == {name.lower() for name in names}
    troubles = (ROOT / "docs" / "guides" / "troubleshoot.md").read_text()
    for anchor in re.findall(r"troubleshoot\.md#([\w-]+)", page):
        title = anchor.replace("-", "[ -]")
        assert re.search(f"^#+ {title}$", troubles, re.MULTILINE | re.IGNORECASE), anchor
    for rule in alerts():
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        link = f"docs/guides/monitor.md#{rule['alert'].lower()}"
        assert rule["annotations"]["runbook_url"] == link
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


def test_prometheus_accepts_the_rules_and_the_configuration(tmp_path: Any) -> None:
    config = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    config = config.replace("/etc/prometheus/rules", str(RULES.parent))
    config = re.sub(r"/run/secrets/[\w.]+", "/dev/null", config)
    (tmp_path / "prometheus.yml").write_text(config)
    for command in (["rules", str(RULES)], ["config", str(tmp_path / "prometheus.yml")]):
        done = subprocess.run([tool("promtool"), "check", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
