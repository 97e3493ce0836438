"""The page of Pulsar's REST interface, from the table of routes and the rights that each call declares."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from engine.tenancy.policies.forms import Choice, Decimal, Fields, Flag, Names, Several, Whole
from tests.support.documents.reference.texts import GENERATED, first_sentence, table

INTRODUCTION = """\
Pulsar's REST interface, at the gateway's port. Bodies and answers are Pulsar's, so its own documentation holds; the
differences are in [compatibility](../compatibility.md#rest-interface). For example:

```sh
curl http://127.0.0.1:8080/admin/v2/namespaces/public
```

```text
["public/default"]
```

- A body is JSON, with the header `Content-Type: application/json`.
- The paths of `persistent` topics exist for `non-persistent` ones as well.
- Names in four parts (`tenant/cluster/namespace/topic`) have the same paths below `/admin/…` instead of `/admin/v2/…`.
- For another cluster of the gateway put `/clusters/{cluster}` before the path.
- *needs*: the right of the caller, where authorization is on. Tenant admins have all rights in their tenant, superusers
  everywhere. See [security](../security.md#rights).
- The paths of `sources` and `sinks` exist as `source` and `sink`, too.
- The calls of functions, sources and sinks without a worker are answered as by a Pulsar in which functions are
  switched off.

## Statuses

| status | meaning |
|---|---|
| 200, 204 | done; 204 has no body |
| 307 | never: the gateway finds the broker itself |
| 400 | the body, a field or a parameter is wrong; the text names it |
| 401, 403 | without credentials, or without the right |
| 404 | the tenant, namespace, topic or subscription does not exist |
| 405 | the path has no such method |
| 409 | it exists already, or another change is in progress |
| 412 | a name is invalid, or the object is in use |
| 422 | the value is valid, but not possible here |
| 429 | too many connections of one address |
| 500 | a failure that a repetition does not mend; the gateway's log has it |
| 501 | Pulsar documents the call, and it is not built |
| 503 | a part does not answer now; a change may have happened. Try again |
"""
TITLES = {
    "clusters": "Clusters",
    "tenants": "Tenants",
    "namespaces": "Namespaces",
    "persistent": "Topics and subscriptions",
    "schemas": "Schemas",
    "brokers": "Brokers",
    "broker-stats": "Statistics of brokers",
    "bookies": "Bookies",
    "resourcegroups": "Resource groups",
    "resource-quotas": "Quotas of bundles",
    "functions": "Functions",
    "sources": "Sources",
    "sinks": "Sinks",
    "packages": "Packages",
    "lookup": "Lookup",
    "topics": "Messages over HTTP",
}
OTHERS = "Others"


def page() -> str:
    """Return the page."""
    from gateway.rest.base import UnbuiltResource
    from gateway.rest.urls import table as routes

    sections: dict[str, list[tuple[str, str, str, str]]] = defaultdict(list)
    unbuilt: list[tuple[str, str]] = []
    for route, view, _ in routes():
        if _is_variant(route.template):
            continue
        built = [
            method
            for method in sorted(route.methods)
            if not issubclass(view, UnbuiltResource) and hasattr(view, method.lower())
        ]
        unbuilt += [(f"`{m}`", f"`{route.template}`") for m in sorted(route.methods - {*built})]
        if built:
            methods = " ".join(f"`{method}`" for method in built)
            row = (methods, f"`{route.template}`", meaning(view), needs(view, built))
            sections[_title(route.template)].append(row)
    text = f"# REST\n\n{GENERATED}\n\n{INTRODUCTION}"
    for title in (*TITLES.values(), OTHERS):
        columns = ("methods", "path", "subject", "needs")
        text += f"\n## {title}\n\n" + table(columns, sections[title])
    return text + "\n## Not built\n\nAnswered with 501:\n\n" + table(("method", "path"), unbuilt)


def _is_variant(template: str) -> bool:
    older = ("/admin/v2/non-persistent/", "/admin/v3/source/", "/admin/v3/sink/")
    return template.startswith(older) or (
        template.startswith("/admin/") and not template.startswith(("/admin/v2/", "/admin/v3/"))
    )


def _title(template: str) -> str:
    segments = template.split("/")
    name = segments[3] if segments[1] == "admin" else segments[1]
    return TITLES.get(name, OTHERS)


def meaning(view: Any) -> str:
    """Return the subject of a resource: the meaning of its policy, or the first sentence of its docstring."""
    if (policy := getattr(view, "policy", None)) is not None:
        form = body(policy.form)
        return f"{policy.title}: {first_sentence(policy.meaning)}" + (form and f". Body: {form}")
    return first_sentence(vars(view).get("__doc__") or "")


def body(form: Any) -> str:
    """Return the form of a policy's body in words; empty for a form of its own."""
    match form:
        case Whole() | Decimal():
            return f"a number of {form.unit}"
        case Flag():
            return "`true` or `false`"
        case Choice():
            return "one of " + ", ".join(f'`"{option}"`' for option in form.options)
        case Several():
            return "a list of " + ", ".join(f'`"{option}"`' for option in form.options)
        case Names():
            return "a list of names"
        case Fields():
            parts = (
                f"`{name}`: {body(inner) or 'see Pulsar'}" for name, inner in form.fields.items()
            )
            return "an object of " + "; ".join(parts)
    return ""


def needs(view: Any, methods: Sequence[str]) -> str:
    """Return the rights of the calls of a path, in the words of the console."""
    rights = {
        method: ", ".join(dict.fromkeys(right.action.value for right in view._rights[method]))
        for method in methods
    }
    if len(set(rights.values())) == 1:
        return rights[methods[0]]
    return "; ".join(f"{method}: {right}" for method, right in rights.items())
