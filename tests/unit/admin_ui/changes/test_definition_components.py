"""Functions, sources and sinks in a file of definitions: exported, compared and made as previewed, without secrets and
without uploaded code."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from engine.functions.connectors.connector_settings import MASK
from engine.functions.packages.package_client import PackageClient
from engine.functions.packages.package_files import UPLOADED_WITH
from engine.packages.package_name import PackageName
from engine.packages.package_operations import PackageDescription
from gateway.services.engine_link import Engine
from tests.support.functions.deployed import DeployedFunctions
from tests.unit.admin_ui.changes.test_change_kinds import Changes, counted
from tests.unit.admin_ui.changes.test_definition_api import applied, apply, diff, export
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

INPUT = "persistent://public/default/in"
CONFIGS = {"url": "postgresql://u@h/d", "password": "very-secret", "table": "t"}
SINK = {"name": "rows", "inputs": [INPUT], "archive": "builtin://postgres", "configs": CONFIGS}
OWN, SHARED = "function://public/default/shout@0", "function://public/default/lib@1"


async def packages(engine: Engine) -> None:
    """Store the package that was uploaded with a function, and one that people stored."""
    client = PackageClient(engine.admin)
    uploaded = PackageDescription(properties={UPLOADED_WITH: "public/default/shout"})
    await client.store(PackageName.parse(OWN), b"class Shout: ...", "shout.py", uploaded)
    for version in ("1", "2"):
        name = PackageName.parse(SHARED)._replace(version=version)
        await client.store(name, b"class Shout: ...", "shout.py", PackageDescription())


@pytest.fixture
def functions() -> DeployedFunctions:
    made = DeployedFunctions()
    for name, package in (("shout", OWN), ("whisper", SHARED)):
        config = {"name": name, "className": "shout.Shout", "inputs": [INPUT], "runtime": "PYTHON"}
        made.add("function", **config).packageLocation.packagePath = package
    made.add("sink", **SINK).packageLocation.packagePath = "builtin://postgres"
    return made


@pytest.fixture
def link(functions: DeployedFunctions) -> Iterator[BenchLink]:
    with bench_link(packages, workers=functions) as made:
        yield made


@pytest.fixture
def changes(
    link: BenchLink, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Changes]:
    made = Changes(link, monkeypatch)
    yield made
    made.call.close()


def document_of(changes: Changes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(export(changes, "&namespace=public/default"))
    return document


def test_an_export_has_configs_and_packages_and_applied_changes_nothing(changes: Changes) -> None:
    document = document_of(changes)
    assert document["functions"].keys() == {"public/default/shout", "public/default/whisper"}
    assert document["functions"]["public/default/shout"]["package"] == "uploaded"
    assert document["functions"]["public/default/whisper"]["package"] == SHARED
    sink = document["sinks"]["public/default/rows"]
    assert (sink["package"], sink["config"]["configs"]["password"]) == ("builtin://postgres", MASK)
    assert "very-secret" not in json.dumps(document)
    assert document["sources"] == {}
    shown = diff(changes, json.dumps(document))
    assert (shown["differing"], shown["not_in_file_total"]) == ([], 0)
    yaml = changes.call("GET", "/api/v1/clusters/standalone/definitions").body.decode()
    assert diff(changes, yaml)["differing"] == []


def test_a_changed_config_and_package_are_made_and_then_no_difference(
    changes: Changes, functions: DeployedFunctions
) -> None:
    document = document_of(changes)
    whisper = document["functions"]["public/default/whisper"]
    whisper["config"]["parallelism"] = 3
    whisper["package"] = SHARED.replace("@1", "@2")
    document["sinks"]["public/default/rows"]["config"]["configs"]["table"] = "other"
    text = json.dumps(document)
    fields = {
        row["name"]: [field["field"] for field in row["fields_changed"]]
        for row in diff(changes, text)["differing"]
    }
    assert fields == {
        "function://public/default/whisper": ["package", "config.parallelism"],
        "sink://public/default/rows": ["config.configs"],
    }
    done = applied(changes, text)
    assert counted(done) == {"done": 2}, changes.items(done["id"])
    stored = functions.stored["public/default/whisper"]
    assert stored.functionDetails.parallelism == 3
    sink = functions.stored["public/default/rows"].functionDetails.sink.configs
    assert '"other"' in sink
    assert "very-secret" in sink, "a hidden secret is kept"


def test_another_form_of_the_same_config_is_no_difference(changes: Changes) -> None:
    document = document_of(changes)
    config = document["functions"]["public/default/whisper"]["config"]
    del config["inputSpecs"]
    config["inputs"] = [INPUT]
    config["parallelism"] = 1
    assert diff(changes, json.dumps(document))["differing"] == []


def test_new_ones_are_created_from_packages_and_connectors(
    changes: Changes, functions: DeployedFunctions
) -> None:
    document = {
        "version": 1,
        "functions": {
            "public/default/copy": {
                "package": SHARED,
                "config": {"className": "shout.Shout", "inputs": [INPUT]},
            }
        },
        "sources": {
            "public/default/made": {
                "package": "builtin://generator",
                "config": {"topicName": INPUT, "configs": {}},
            }
        },
    }
    text = json.dumps(document)
    assert [row["exists"] for row in diff(changes, text)["differing"]] == [False, False]
    done = applied(changes, text)
    assert counted(done) == {"done": 2}, changes.items(done["id"])
    assert functions.stored["public/default/copy"].packageLocation.packagePath == SHARED
    assert functions.stored["public/default/made"].functionDetails.source.builtin == "generator"
    assert diff(changes, text)["differing"] == []


def test_uploaded_code_and_hidden_secrets_are_refused_in_the_preview(
    changes: Changes, functions: DeployedFunctions
) -> None:
    text = json.dumps(document_of(changes))
    for name in list(functions.stored):
        if name != "public/default/whisper":
            del functions.stored[name]
    made = apply(changes, text, diff(changes, text)["digest"])
    reasons = {item["topic"]: item["reason"] for item in changes.items(made.json["id"])}
    assert "was uploaded with it" in reasons["function://public/default/shout"]
    assert "secret of it is hidden" in reasons["sink://public/default/rows"]
    document = document_of(changes)
    document["functions"]["public/default/whisper"]["package"] = SHARED.replace("lib", "none")
    text = json.dumps(document)
    made = apply(changes, text, diff(changes, text)["digest"])
    (item,) = changes.items(made.json["id"])
    assert item["state"] == "refused", item


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"package": "https://h/f.py"}, "package"),
        ({"package": "function://public/default/lib"}, "package"),
        ({"package": 3}, "package"),
        ({"config": []}, "config"),
        ({"config": {"tenant": "public"}}, "config.tenant"),
        ({"config": {"nothing": 1}}, "config.nothing"),
        ({"code": "x"}, "code"),
    ],
)
def test_a_wrong_function_names_its_place(changes: Changes, given: Any, field: str) -> None:
    text = json.dumps({"version": 1, "functions": {"public/default/f": given}})
    answer = changes.call("POST", "/api/v1/clusters/standalone/definitions/diff", {"text": text})
    assert (answer.status, answer.json["field"]) == (400, f"functions.public/default/f.{field}")


def test_a_secret_in_clear_text_is_refused_and_not_repeated(changes: Changes) -> None:
    given = {"package": "builtin://postgres", "config": {"configs": CONFIGS}}
    text = json.dumps({"version": 1, "sinks": {"public/default/s": given}})
    answer = changes.call("POST", "/api/v1/clusters/standalone/definitions/diff", {"text": text})
    assert answer.json["field"] == "sinks.public/default/s.config.configs.password"
    assert b"very-secret" not in answer.body


def test_names_are_of_a_namespace(changes: Changes) -> None:
    for name in ("f", "public/f", "public/default/", "a/b/c/d", "public/default/a:b"):
        text = json.dumps({"version": 1, "functions": {name: {}}})
        answer = changes.call(
            "POST", "/api/v1/clusters/standalone/definitions/diff", {"text": text}
        )
        assert answer.status == 400, answer.json
        assert answer.json["field"] == f"functions.{name}", answer.json


def test_without_workers_none_are_exported(transactional_db: None, monkeypatch: Any) -> None:
    with bench_link() as bare:
        changes = Changes(bare, monkeypatch)
        document = json.loads(export(changes))
        assert (document["functions"], document["sinks"]) == ({}, {})
        changes.call.close()
