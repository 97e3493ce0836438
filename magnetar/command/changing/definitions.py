"""``magnetar definitions``: export tenants, namespaces, topics and subscriptions, compare a file, and apply it."""

import json
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import urlencode

import click

from magnetar.command.changing.changes import (
    check_done,
    followed,
    items_of,
    items_text,
    line_of,
    path_of_set,
)
from magnetar.command.cluster.calls import call, cluster_path, confirm, confirmed
from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import CommandFailed
from magnetar.command.output import emit, json_option, safe

FILE = click.argument("file", type=click.File("r", encoding="utf-8"))


@click.group(name="definitions", short_help="Export, compare and apply definitions as a file.")
def command() -> None:
    """Export tenants, namespaces, policies, topics and subscriptions as a file, compare it, and apply it.

    Example: magnetar definitions export > cluster.yaml
    """


@command.command()
@click.option("--format", "form", type=click.Choice(["yaml", "json"]), default="yaml")
@click.option("--tenant", default="", help="Only this tenant.")
@click.option("--namespace", default="", help="Only this namespace, tenant/name.")
@connection_options
def export(connection: ClusterAddress, form: str, tenant: str, namespace: str) -> None:
    """Print the definitions that the caller may change as a file."""
    named = {"format": form, "tenant": tenant, "namespace": namespace}
    query = urlencode({name: value for name, value in named.items() if value})

    async def work(admin: Any) -> Any:
        return await admin.call("GET", f"{await cluster_path(admin)}/definitions?{query}")

    answer = call(connection, work)
    text = json.dumps(answer, indent=2, ensure_ascii=False) + "\n" if form == "json" else answer
    click.echo(text, nl=False)


@command.command()
@FILE
@json_option
@connection_options
def diff(connection: ClusterAddress, file: IO[str], as_json: bool) -> None:
    """Compare FILE (- for standard input) to the cluster. The exit code is 0 also for differences."""
    text = file.read()

    async def work(admin: Any) -> Any:
        return await _compared(admin, await cluster_path(admin), text)

    answer = call(connection, work)
    emit(answer, as_json, lambda: _diff_text(answer))


@command.command()
@FILE
@confirmed
@json_option
@connection_options
def apply(connection: ClusterAddress, file: IO[str], yes: bool, as_json: bool) -> None:
    """Make the cluster as FILE has it, after a preview. Objects that FILE does not have stay."""
    text = file.read()

    async def preview(admin: Any) -> tuple[str, Any, Any, list[dict[str, Any]]]:
        base = await cluster_path(admin)
        compared = await _compared(admin, base, text)
        if not compared["differing"]:
            return base, compared, None, []
        body = {"text": text, "digest": compared["digest"]}
        row = await admin.call("POST", f"{base}/definitions/apply", body)
        row = await followed(admin, base, row, quiet=as_json)
        return base, compared, row, await items_of(admin, base, row["id"])

    base, compared, row, items = call(connection, preview)
    if row is None:
        emit(compared, as_json, lambda: "nothing is to be changed")
        return
    planned = [item for item in items if item["state"] == "planned"]
    if not planned:
        raise CommandFailed(f"nothing can be changed:\n{items_text(items)}")
    confirm(f"{items_text(items)}\nChange {len(planned):,} of {len(items):,} objects?", yes)

    async def work(admin: Any) -> Any:
        path = f"{path_of_set(base, row['id'])}/confirm"
        row_then = await admin.call("POST", path, {"digest": row["digest"]})
        return await followed(admin, base, row_then, quiet=as_json)

    done = call(connection, work)
    emit(done, as_json, lambda: line_of(done))
    check_done(done)


async def _compared(admin: Any, base: str, text: str) -> Any:
    return await admin.call("POST", f"{base}/definitions/diff", {"text": text})


def _diff_text(answer: Mapping[str, Any]) -> str:
    lines = []
    for row in answer["differing"]:
        name = f"{row['subscription']} of {row['name']}" if row["subscription"] else row["name"]
        lines.append(safe(f"{'~' if row['exists'] else '+'} {row['kind']} {name}"))
        lines += [
            safe(f"    {field['field']}: {_shown(field['before'])} -> {_shown(field['after'])}")
            for field in row["fields_changed"]
        ]
    total = answer["not_in_file_total"]
    if total:
        lines.append(f"{total:,} topics of the file's namespaces are not in it, and stay")
    lines.append(f"{len(answer['differing']):,} of {answer['objects']:,} objects differ")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
