"""``magnetar packages``: code of functions, sources and sinks under names and versions."""

import json
from typing import Any

import click

from magnetar.command.cluster.calls import call, confirm, confirmed
from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.functions.components import store
from magnetar.command.functions.forms import (
    DEFAULT,
    KINDS,
    FormBody,
    exchange,
    namespace_path,
    package_path,
    read_code,
    send_form,
)
from magnetar.command.output import emit, json_option, safe


@click.group(name="packages", short_help="Store, fetch and delete code of functions.")
def command() -> None:
    """Store, fetch and delete code of functions, sources and sinks.

    A package is function://TENANT/NAMESPACE/NAME@VERSION, also source:// and sink://.

    Example: magnetar packages upload function://public/default/ex@1 ex.py
    """


@command.command("list")
@click.argument("namespace", default=DEFAULT)
@click.option("--type", "kind", type=click.Choice(KINDS), default="function", show_default=True)
@json_option
@connection_options
def list_packages(connection: ClusterAddress, namespace: str, kind: str, as_json: bool) -> None:
    """List the packages of NAMESPACE (public/default)."""
    path = namespace_path(f"packages/{kind}", namespace)
    names = call(connection, lambda admin: admin.call("GET", path))
    emit(names, as_json, lambda: "\n".join(map(safe, names)) or "no packages")


@command.command()
@click.argument("package")
@json_option
@connection_options
def versions(connection: ClusterAddress, package: str, as_json: bool) -> None:
    """List the versions of PACKAGE."""
    path = package_path(package).rpartition("/")[0]
    names = call(connection, lambda admin: admin.call("GET", path))
    emit(names, as_json, lambda: "\n".join(map(safe, names)) or "no versions")


def _described(
    description: str | None, contact: str | None, properties: tuple[str, ...]
) -> dict[str, Any]:
    """Return what people say of a package. Raises CommandFailed."""
    pairs = [text.partition("=") for text in properties]
    if not all(name and equals for name, equals, _ in pairs):
        raise CommandFailed("--property: it is NAME=VALUE", Exit.USAGE)
    return {
        "description": description or "",
        "contact": contact or "",
        "properties": {name: value for name, _, value in pairs},
    }


_DESCRIBED = (
    click.option("--description", metavar="TEXT", help="A description."),
    click.option("--contact", metavar="TEXT", help="Who knows about it."),
    click.option(
        "--property", "properties", multiple=True, metavar="NAME=VALUE", help="May be repeated."
    ),
)


def _with_description(function: Any) -> Any:
    for option in reversed(_DESCRIBED):
        function = option(function)
    return function


@command.command()
@click.argument("package")
@click.argument("file")
@_with_description
@connection_options
def upload(connection: ClusterAddress, package: str, file: str, **described: Any) -> None:
    """Store FILE as PACKAGE, a version that does not exist yet."""
    form = FormBody()
    form.json("metadata", _described(**described))
    form.file("file", *read_code(file))
    send_form(connection, "POST", package_path(package), form)
    click.echo(f"{safe(package)} is stored")


@command.command()
@click.argument("package")
@click.argument("file")
@connection_options
def download(connection: ClusterAddress, package: str, file: str) -> None:
    """Write PACKAGE to FILE, which must not exist."""
    path = package_path(package)
    store(file, lambda: exchange(connection, "GET", path))


@command.command()
@click.argument("package")
@connection_options
def show(connection: ClusterAddress, package: str) -> None:
    """Print what is known of PACKAGE as JSON."""
    path = f"{package_path(package)}/metadata"
    metadata = call(connection, lambda admin: admin.call("GET", path))
    click.echo(json.dumps(metadata, indent=2, ensure_ascii=False))


@command.command()
@click.argument("package")
@_with_description
@connection_options
def describe(connection: ClusterAddress, package: str, **described: Any) -> None:
    """Replace description, contact and properties of PACKAGE."""
    path, body = f"{package_path(package)}/metadata", _described(**described)
    call(connection, lambda admin: admin.call("PUT", path, body))
    click.echo(f"{safe(package)} is described")


@command.command()
@click.argument("package")
@confirmed
@connection_options
def delete(connection: ClusterAddress, package: str, yes: bool) -> None:
    """Delete PACKAGE, a version."""
    path = package_path(package)
    confirm(f"Delete {package}?", yes)
    call(connection, lambda admin: admin.call("DELETE", path))
    click.echo(f"{safe(package)} is deleted")
