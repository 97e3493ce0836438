"""The page of the console's interface, from its OpenAPI document."""

import json
from collections import defaultdict
from typing import Any

from tests.support.documents.pages import ROOT
from tests.support.documents.reference.texts import GENERATED, first_sentence, table

INTRODUCTION = """\
The console's own interface, below `/api/v1`. It has what Pulsar's REST lacks: causes of backlogs, previews of changes,
people, the audit log, analyses. The complete description with all shapes is the OpenAPI document, which every gateway
serves at `/api/v1/schema`.

- Times are milliseconds since 1970, rates are per second, 64-bit ids are texts.
- Credentials are those of [REST](rest.md): a token, or the session of a person. A change in a session needs the header
  `X-CSRFToken`.
- This interface may change between versions. Scripts that must last use REST.
"""


def page() -> str:
    """Return the page."""
    document: dict[str, Any] = json.loads((ROOT / "frontend" / "openapi.json").read_text())
    sections: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            row = (f"`{method.upper()}`", f"`{path}`", _text(call))
            sections[call["tags"][0]].append(row)
    text = f"# Console API\n\n{GENERATED}\n\n{INTRODUCTION}"
    for tag in sorted(sections):
        text += f"\n## {tag}\n\n" + table(
            ("method", "path", "answer and parameters"), sections[tag]
        )
    return text


def _text(call: dict[str, Any]) -> str:
    names = [f"`{p['name']}`" for p in call.get("parameters", ()) if p["in"] == "query"]
    parameters = f". Parameters: {', '.join(names)}" if names else ""
    return first_sentence(call.get("description", "")) + parameters
