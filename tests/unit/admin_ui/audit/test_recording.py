"""Which calls are recorded: all that may change something, and no question."""

import json
import re
from pathlib import Path
from typing import Any

from django.test import RequestFactory

from admin_ui.audit.recording import is_change

CONSOLE = Path(__file__).parents[4] / "frontend" / "openapi.json"


def is_recorded(method: str, path: str, body: Any) -> bool:
    return is_change(RequestFactory().generic(method, path, json.dumps(body), "application/json"))


def mutating() -> list[tuple[str, str, bool]]:
    """Method, path, and whether it can be asked for a preview, of the console's calls."""
    document = json.loads(CONSOLE.read_text())
    found = []
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            if method in ("post", "put", "patch", "delete"):
                content = call.get("requestBody", {}).get("content", {})
                of = content.get("application/json", {}).get("schema", {}).get("$ref", "/none")
                body = document["components"]["schemas"].get(of.rpartition("/")[2], {})
                named = re.sub(r"\{\w+\}", "x", path)
                found.append((method.upper(), named, "preview" in body.get("properties", {})))
    return found


def test_a_preview_is_a_question_where_there_is_one_and_nowhere_else() -> None:
    calls = mutating()
    assert {previewed for _, _, previewed in calls} == {True, False}
    for method, path, previewed in calls:
        asked = is_recorded(method, path, {"preview": True})
        done = is_recorded(method, path, {"preview": False})
        assert done or "/schemas/" in path, path
        assert asked == (done and not previewed), path
