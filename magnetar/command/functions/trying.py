"""``magnetar functions try``: a function on the last messages of its inputs, before it is deployed."""

import base64
from typing import Any

import click

from magnetar.command.cluster.calls import call, cluster_path
from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import Exit
from magnetar.command.functions.forms import config_of, named_tail, read_code
from magnetar.command.output import emit, json_option, safe


@click.command("try")
@click.argument("name")
@click.argument("file", required=False)
@click.option("--class", "class_name", metavar="MODULE.CLASS", help="The class in the code.")
@click.option("--config", metavar="FILE", help="YAML or JSON file with fields of the config.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A field of the config."
)
@click.option("--package", metavar="URL", help="Code in place of FILE: function://…@VERSION.")
@click.option("--input", "inputs", multiple=True, metavar="TOPIC", help="An input topic.")
@click.option("--output", metavar="TOPIC", help="The output topic, which receives nothing.")
@click.option("--messages", type=click.IntRange(1, 50), default=10, show_default=True, metavar="N")
@json_option
@connection_options
def try_function(
    connection: ClusterAddress,
    name: str,
    file: str | None,
    class_name: str | None,
    config: str | None,
    settings: tuple[str, ...],
    package: str | None,
    inputs: tuple[str, ...],
    output: str | None,
    messages: int,
    as_json: bool,
) -> None:
    """Run a function on the last N messages of its inputs, and print what it does with each.

    Nothing is published, stored or acknowledged. NAME is a deployed function, or that of a new one; without FILE its
    stored code is run.
    """
    given = config_of(config, settings, className=class_name, inputs=list(inputs), output=output)
    body: dict[str, Any] = {"config": given, "messages": messages}
    if package is not None:
        body["url"] = package
    if file is not None:
        content, file_name = read_code(file)
        body |= {"code": base64.b64encode(content).decode(), "file_name": file_name}
    tail = named_tail(name)

    async def tried(admin: Any) -> Any:
        path = f"{await cluster_path(admin)}/functions/function/{tail}/try"
        return await admin.call("POST", path, body)

    trial = call(connection, tried)
    emit(trial, as_json, lambda: _text(trial))
    if any(message["error"] for message in trial["messages"]):
        raise SystemExit(Exit.FAILED)


def _text(trial: dict[str, Any]) -> str:
    """Return a trial for people: a paragraph for each message."""
    lines: list[str] = []
    for message in trial["messages"]:
        took = "" if message["took_ms"] is None else f"  {message['took_ms']:.1f} ms"
        lines.append(f"{message['topic']} {message['id']}{took}")
        lines.append(f"  input    {_value(message['input'])}")
        if message["error"]:
            lines += [f"  {line}" for line in message["error"].rstrip().splitlines()]
        else:
            lines.append(f"  output   {_value(message['output'])}")
        lines += [
            f"  publish  {row['topic']}: {_value(row['value'])}" for row in message["publications"]
        ]
        lines += [f"  state    {row['key']} = {_value(row['value'])}" for row in message["state"]]
        lines += [f"  log      {line}" for line in message["logs"]]
    if not trial["messages"]:
        lines.append("the inputs have no messages")
    if trial["ended"]:
        lines.append(f"ended early: {trial['ended']}")
    if trial["unreadable"] or trial["left_out"]:
        lines.append(
            f"left out: {trial['unreadable']} entries that cannot be read, {trial['left_out']} too large ones"
        )
    if trial["secrets"]:
        lines.append(f"a trial has no secrets; asked for: {', '.join(trial['secrets'])}")
    return "\n".join(safe(line) for line in lines)


def _value(value: dict[str, Any] | None) -> str:
    if value is None:
        return "none"
    return str(value.get("text", value.get("base64", "")))
