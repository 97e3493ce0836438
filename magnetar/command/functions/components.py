"""``magnetar functions``, ``magnetar sources`` and ``magnetar sinks``: deploy, start, stop and examine them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from magnetar.command.cluster.calls import call, confirm, confirmed
from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.functions.forms import (
    DEFAULT,
    FormBody,
    config_of,
    exchange,
    named_path,
    namespace_path,
    read_code,
    send_form,
)
from magnetar.command.output import emit, json_option, safe, table

EXAMPLES = {
    "function": "magnetar functions create exclaim ex.py --class ex.Exclaim --input in --output out",
    "source": "magnetar sources create ticks --archive builtin://generator --output ticks",
    "sink": 'magnetar sinks create files --archive builtin://files --input ticks --set configs=\'{"folder": "out"}\'',
}
_HELP = {
    "function": "Deploy, start, stop and examine functions.",
    "source": "Deploy, start, stop and examine sources.",
    "sink": "Deploy, start, stop and examine sinks.",
}


def _group(component: str) -> click.Group:
    tree = f"{component}s"
    group = click.Group(
        name=tree,
        short_help=_HELP[component],
        help=f"{_HELP[component]}\n\nA name is NAME, in {DEFAULT}, or TENANT/NAMESPACE/NAME.\n\n"
        f"Example: {EXAMPLES[component]}",
    )
    for make in (_list, _show, _create, _update, _delete, _status, *_ACTIONS):
        group.add_command(make(component, tree))
    return group


def _list(component: str, tree: str) -> click.Command:
    @click.command("list", help=f"List the {tree} of NAMESPACE ({DEFAULT}).")
    @click.argument("namespace", default=DEFAULT)
    @json_option
    @connection_options
    def run(connection: ClusterAddress, namespace: str, as_json: bool) -> None:
        path = namespace_path(tree, namespace)
        names = call(connection, lambda admin: admin.call("GET", path))
        emit(names, as_json, lambda: "\n".join(map(safe, names)) or f"no {tree}")

    return run


def _show(component: str, tree: str) -> click.Command:
    @click.command("show", help=f"Print the config of a {component} as JSON.")
    @click.argument("name")
    @connection_options
    def run(connection: ClusterAddress, name: str) -> None:
        path = named_path(tree, name)
        config = call(connection, lambda admin: admin.call("GET", path))
        click.echo(json.dumps(config, indent=2, ensure_ascii=False))

    return run


def _config_options(component: str) -> Callable[[Any], Any]:
    """Return a decorator with the options of a config."""
    options = [
        click.option(
            "--class", "class_name", metavar="MODULE.CLASS", help="The class in the code."
        ),
        click.option(
            "--config", metavar="FILE", help="YAML or JSON file with fields of the config."
        ),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="A field of the config, as JSON or text. May be repeated.",
        ),
        click.option("--parallelism", type=click.IntRange(1), metavar="N", help="Instances."),
        click.option(
            "--package",
            metavar="URL",
            help="Code in place of FILE: function://…@VERSION, https://…",
        ),
    ]
    if component != "source":
        options.append(
            click.option(
                "--input", "inputs", multiple=True, metavar="TOPIC", help="An input topic."
            )
        )
    if component != "sink":
        options.append(click.option("--output", metavar="TOPIC", help="The output topic."))
    if component != "function":
        options.append(
            click.option("--archive", metavar="builtin://NAME", help="A built-in connector.")
        )

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _form(component: str, file: str | None, options: dict[str, Any]) -> FormBody:
    """Return the form of a deployment. Raises CommandFailed."""
    package = options.pop("package")
    config = config_of(
        options.pop("config"),
        options.pop("settings"),
        className=options.pop("class_name"),
        inputs=list(options.pop("inputs", ())),
        **{"topicName" if component == "source" else "output": options.pop("output", None)},
        **options,
    )
    form = FormBody()
    form.json(f"{component}Config", config)
    if file is not None and package is not None:
        raise CommandFailed("FILE and --package exclude each other", Exit.USAGE)
    if file is not None:
        form.file("data", *read_code(file))
    elif package is not None:
        form.text("url", package)
    return form


def _create(component: str, tree: str) -> click.Command:
    @click.command("create", help=f"Create a {component} from FILE: .py, .whl or .zip.")
    @click.argument("name")
    @click.argument("file", required=False)
    @_config_options(component)
    @connection_options
    def run(connection: ClusterAddress, name: str, file: str | None, **options: Any) -> None:
        send_form(connection, "POST", named_path(tree, name), _form(component, file, options))
        click.echo(f"{safe(name)} is created")

    return run


def _update(component: str, tree: str) -> click.Command:
    @click.command("update", help=f"Change fields of a {component}, or its code to FILE.")
    @click.argument("name")
    @click.argument("file", required=False)
    @_config_options(component)
    @connection_options
    def run(connection: ClusterAddress, name: str, file: str | None, **options: Any) -> None:
        send_form(connection, "PUT", named_path(tree, name), _form(component, file, options))
        click.echo(f"{safe(name)} is updated")

    return run


def _delete(component: str, tree: str) -> click.Command:
    @click.command("delete", help=f"Delete a {component} with its uploaded code.")
    @click.argument("name")
    @confirmed
    @connection_options
    def run(connection: ClusterAddress, name: str, yes: bool) -> None:
        path = named_path(tree, name)
        confirm(f"Delete the {component} {name}?", yes)
        call(connection, lambda admin: admin.call("DELETE", path))
        click.echo(f"{safe(name)} is deleted")

    return run


_SHOWN = ("instanceId", "running", "numRestarts", "received", "processed", "exceptions", "workerId")


def _status(component: str, tree: str) -> click.Command:
    @click.command("status", help=f"Print the state of each instance of a {component}.")
    @click.argument("name")
    @json_option
    @connection_options
    def run(connection: ClusterAddress, name: str, as_json: bool) -> None:
        path = named_path(tree, name)
        status = call(connection, lambda admin: admin.call("GET", f"{path}/status"))
        emit(status, as_json, lambda: _status_text(status))

    return run


def _status_text(status: dict[str, Any]) -> str:
    rows = [_row(item["instanceId"], item["status"]) for item in status["instances"]]
    lines = [f"{status['numRunning']} of {status['numInstances']} run", table(rows, _SHOWN)]
    lines += [
        f"instance {item['instanceId']}: {safe(item['status']['error'])}"
        for item in status["instances"]
        if item["status"].get("error")
    ]
    return "\n".join(lines)


def _row(instance: int, status: dict[str, Any]) -> dict[str, Any]:
    def first(*names: str) -> Any:
        return next((status[name] for name in names if name in status), None)

    counts = [
        value for name, value in status.items() if name.endswith("Exceptions") and name[:3] == "num"
    ]
    return {
        "instanceId": instance,
        "running": "yes" if status.get("running") else "no",
        "numRestarts": status.get("numRestarts"),
        "received": first("numReceived", "numReadFromPulsar", "numReceivedFromSource"),
        "processed": first("numSuccessfullyProcessed", "numWrittenToSink", "numWritten"),
        "exceptions": sum(counts),
        "workerId": safe(str(status.get("workerId", ""))),
    }


def _action(verb: str, done: str, help_text: str) -> Callable[[str, str], click.Command]:
    def make(component: str, tree: str) -> click.Command:
        @click.command(verb, help=help_text.format(component))
        @click.argument("name")
        @click.option("--instance", type=click.IntRange(0), metavar="N", help="One instance alone.")
        @connection_options
        def run(connection: ClusterAddress, name: str, instance: int | None) -> None:
            tail = verb if instance is None else f"{instance}/{verb}"
            path = f"{named_path(tree, name)}/{tail}"
            call(connection, lambda admin: admin.call("POST", path))
            click.echo(f"{safe(name)} {done}")

        return run

    return make


_ACTIONS = (
    _action("start", "is started", "Start the instances of a {}."),
    _action("stop", "is stopped", "Stop the instances of a {} until they are started."),
    _action("restart", "is restarted", "End the instances of a {}, which start again."),
)
functions, sources, sinks = _group("function"), _group("source"), _group("sink")


def _available(component: str) -> click.Command:
    @click.command("available", help=f"List the built-in connectors with a {component}.")
    @json_option
    @connection_options
    def run(connection: ClusterAddress, as_json: bool) -> None:
        path = f"/admin/v3/{component}s/builtin{component}s"
        known = call(connection, lambda admin: admin.call("GET", path))
        emit(known, as_json, lambda: table(known, ("name", "description")))

    return run


sources.add_command(_available("source"))
sinks.add_command(_available("sink"))


@functions.command()
@click.argument("name")
@json_option
@connection_options
def stats(connection: ClusterAddress, name: str, as_json: bool) -> None:
    """Print the statistics of a function as JSON."""
    path = named_path("functions", name)
    figures = call(connection, lambda admin: admin.call("GET", f"{path}/stats"))
    emit(figures, as_json, lambda: json.dumps(figures, indent=2, ensure_ascii=False))


@functions.command()
@click.argument("name")
@click.argument("value")
@click.option("--topic", metavar="TOPIC", help="The input topic; needed where there are several.")
@connection_options
def trigger(connection: ClusterAddress, name: str, value: str, topic: str | None) -> None:
    """Run a function on VALUE, which is published to its input, and print its output."""
    form = FormBody()
    form.text("data", value)
    if topic is not None:
        form.text("topic", topic)
    output = send_form(connection, "POST", f"{named_path('functions', name)}/trigger", form)
    click.echo(safe(output.decode(errors="replace")))


@functions.command()
@click.argument("name")
@click.argument("key")
@click.option("--put", metavar="TEXT", help="Store this text in place of the value.")
@json_option
@connection_options
def state(connection: ClusterAddress, name: str, key: str, put: str | None, as_json: bool) -> None:
    """Print the value of KEY in the state of a function, or store one."""
    from urllib.parse import quote

    path = f"{named_path('functions', name)}/state/{quote(key, safe='')}"
    if put is not None:
        form = FormBody()
        form.json("state", {"key": key, "stringValue": put})
        send_form(connection, "POST", path, form)
    value = call(connection, lambda admin: admin.call("GET", path))
    emit(value, as_json, lambda: safe(str(_shown_value(value))))


def _shown_value(value: dict[str, Any]) -> Any:
    names = ("numberValue", "stringValue", "byteValue")
    return next((value[name] for name in names if value.get(name) is not None), "")


@functions.command()
@click.argument("name")
@click.argument("file")
@connection_options
def download(connection: ClusterAddress, name: str, file: str) -> None:
    """Write the code of a function to FILE, which must not exist."""
    path = f"{named_path('functions', name)}/download"
    store(file, lambda: exchange(connection, "GET", path))


def store(file: str, content: Callable[[], bytes]) -> None:
    """Write what ``content`` returns to a new file. Raises CommandFailed."""
    if Path(file).exists():
        raise CommandFailed(f"{file} exists", Exit.USAGE, "Choose another name")
    data = content()
    try:
        with Path(file).open("xb") as target:
            target.write(data)
    except OSError as error:
        raise CommandFailed(f"cannot write {file}: {error.strerror}") from error
    click.echo(f"{len(data)} bytes in {safe(file)}")
