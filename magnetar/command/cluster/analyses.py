"""``magnetar analyses``: list what can be asked of topics, run an analysis, show runs and their results."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import click

from magnetar.command.cluster.calls import call
from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.output import emit, json_option, safe, table

POLL_S = 0.5
_CONVERTERS: dict[str, Any] = {"integer": int, "number": float, "string": str}
"""Conversions of parameters' texts by their types; other types are given as JSON."""


@click.group(name="analyses", short_help="Run analyses of topics, and show their results.")
def command() -> None:
    """Run analyses of topics, and show their results. A gateway with a worker answers.

    Example: magnetar analyses run topic-profile orders
    """


@command.command("list")
@json_option
@connection_options
def list_analyses(connection: ClusterAddress, as_json: bool) -> None:
    """List the analyses, with the question that each answers."""
    rows = call(connection, lambda admin: admin.call("GET", "/api/v1/analyses"))
    emit(rows, as_json, lambda: table(rows, ["name", "question"]))


@command.command()
@click.argument("analysis")
@click.argument("topic", required=False)
@click.option(
    "--parameter",
    "-p",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the analysis, such as namespace=public/default; may be repeated.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait for the result; print the run's id.")
@json_option
@connection_options
def run(
    connection: ClusterAddress,
    analysis: str,
    topic: str | None,
    given: tuple[str, ...],
    no_wait: bool,
    as_json: bool,
) -> None:
    """Run ANALYSIS, of TOPIC or of what the parameters name, and print its findings.

    An interrupted command leaves the run as it is; `magnetar analyses show` has its result.
    """

    async def work(admin: Any) -> dict[str, Any]:
        known = await admin.call("GET", "/api/v1/analyses")
        schema = next((row["parameters"] for row in known if row["name"] == analysis), None)
        if schema is None:
            hint = "`magnetar analyses list` shows them"
            raise CommandFailed(f"there is no analysis {analysis!r}", Exit.MISSING, hint)
        parameters = parameters_of(given, schema["properties"])
        if topic is not None:
            parameters["topic"] = topic
        body = {"analysis": analysis, "parameters": parameters}
        launched = await admin.call("POST", "/api/v1/runs", body)
        stage = ""
        while not no_wait and launched["finished_at"] is None:
            if not as_json and launched["stage"] != stage:
                stage = launched["stage"]
                click.echo(safe(stage), err=True)
            await asyncio.sleep(POLL_S)
            launched = await admin.call("GET", f"/api/v1/runs/{launched['id']}")
        return dict(launched)

    ended = call(connection, work)
    emit(ended, as_json, lambda: ended["id"] if no_wait else shown(ended))
    if ended["state"] in ("failed", "cancelled"):
        raise CommandFailed(f"the run has {ended['state']}", Exit.FAILED)


@command.command()
@click.argument("run_id", metavar="RUN", required=False)
@json_option
@connection_options
def show(connection: ClusterAddress, run_id: str | None, as_json: bool) -> None:
    """Show the findings and figures of RUN; without it list the newest runs."""
    path = "/api/v1/runs?limit=50" if run_id is None else f"/api/v1/runs/{quote(run_id, safe='')}"
    answer = call(connection, lambda admin: admin.call("GET", path))
    if run_id is not None:
        emit(answer, as_json, lambda: shown(answer))
        return
    rows = [
        {"run": row["id"], "state": row["state"], "created": _time(row["created_at"]), "title": safe(row["title"])}
        for row in answer["rows"]
    ]  # fmt: skip
    columns = ["run", "state", "created", "title"]
    emit(answer["rows"], as_json, lambda: table(rows, columns) if rows else "no runs")


def parameters_of(given: Sequence[str], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of ``NAME=VALUE`` texts, of their types. Raises CommandFailed."""
    parameters: dict[str, Any] = {}
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or name not in properties:
            known = ", ".join(properties)
            raise CommandFailed(
                f"--parameter {text!r} must be NAME=VALUE; names: {known}", Exit.USAGE
            )
        kind = str(properties[name].get("type"))
        try:
            parameters[name] = _CONVERTERS.get(kind, json.loads)(value)
        except ValueError as error:
            raise CommandFailed(
                f"--parameter {name} must be of type {kind}, not {value!r}", Exit.USAGE
            ) from error
    return parameters


def shown(run: Mapping[str, Any]) -> str:
    """Return a run as text: its state, findings and figures."""
    lines = [f"{run['title'] or run['analysis']}: {run['state']}"]
    if run["error"]:
        lines.append(f"error: {run['error']}")
    result = run["result"] or run["partial"]
    if result is not None:
        lines += ["", *result.get("conclusions", ())]
        figures = [(item["label"], _figure(item)) for item in result["summary"]]
        width = max((len(label) for label, _ in figures), default=0)
        lines += ["", *(f"{label.ljust(width)}  {value}" for label, value in figures)]
    return "\n".join(safe(line) for line in lines)


def _figure(item: Mapping[str, Any]) -> str:
    value, unit = item["value"], item["unit"]
    if value is None:
        return "?"
    # Times are long since the epoch, unlike durations.
    if unit == "ms" and value > 10**11:
        return _time(value)
    if isinstance(value, float):
        value = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    elif isinstance(value, int):
        value = f"{value:,}"
    return f"{value} {unit}".rstrip()


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
