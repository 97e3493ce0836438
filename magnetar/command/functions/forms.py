"""Requests of commands of functions, sources, sinks and packages: names, configs, and forms with a file."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from engine.base.entropy import RandomEntropy
from magnetar.command.connecting.options import ClusterAddress
from magnetar.command.exits import CommandFailed, Exit

DEFAULT = "public/default"
UPLOAD_S = 300.0
KINDS = ("function", "source", "sink")


def namespace_path(tree: str, namespace: str) -> str:
    """Return the path of a namespace's functions, sources or sinks. Raises CommandFailed."""
    return f"/admin/v3/{tree}/{_namespace_tail(namespace)}"


def _namespace_tail(namespace: str) -> str:
    parts = namespace.split("/")
    if len(parts) != 2 or not all(parts):
        raise CommandFailed(f"{namespace!r} is no namespace: it is TENANT/NAMESPACE", Exit.USAGE)
    return "/".join(quote(part, safe="") for part in parts)


def named_path(tree: str, name: str) -> str:
    """Return the path of a function, source or sink, NAME or TENANT/NAMESPACE/NAME. Raises CommandFailed."""
    return f"/admin/v3/{tree}/{named_tail(name)}"


def named_tail(name: str) -> str:
    """Return the end of the paths of a function, source or sink: tenant, namespace and name. Raises CommandFailed."""
    namespace, _, local = name.rpartition("/")
    if not local:
        raise CommandFailed(f"{name!r} is no name: it is NAME or TENANT/NAMESPACE/NAME", Exit.USAGE)
    return f"{_namespace_tail(namespace or DEFAULT)}/{quote(local, safe='')}"


def package_path(url: str) -> str:
    """Return the path of a version of a package, by its URL. Raises CommandFailed."""
    from engine.base.errors import InvalidNameError
    from engine.packages.package_name import PackageName

    try:
        name = PackageName.parse(url)
    except InvalidNameError as error:
        raise CommandFailed(
            str(error), Exit.USAGE, "A package is function://TENANT/NAMESPACE/NAME@VERSION"
        ) from error
    tree = namespace_path(f"packages/{name.kind}", str(name.namespace))
    return f"{tree}/{quote(name.name, safe='')}/{quote(name.version, safe='')}"


def config_of(file: str | None, settings: tuple[str, ...], **given: Any) -> dict[str, Any]:
    """Return a config: the fields of a YAML or JSON file, then NAME=VALUE texts, then options that are given.

    Raises CommandFailed.
    """
    config: dict[str, Any] = {}
    if file is not None:
        import yaml

        try:
            loaded = yaml.safe_load(Path(file).read_text())
        except (OSError, ValueError, yaml.YAMLError) as error:
            text = " ".join(str(error).split())
            raise CommandFailed(f"cannot read {file}: {text}", Exit.USAGE) from error
        if not isinstance(loaded, dict):
            raise CommandFailed(f"{file} holds no config: it is not an object", Exit.USAGE)
        config = loaded
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise CommandFailed(f"--set {setting!r}: it is NAME=VALUE", Exit.USAGE)
        config[name] = _value(text)
    return config | {name: value for name, value in given.items() if value not in (None, (), [])}


def _value(text: str) -> Any:
    """Return a value that is given as JSON; any other text is itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def read_code(path: str) -> tuple[bytes, str]:
    """Return the content and the name of a file. Raises CommandFailed."""
    try:
        return Path(path).read_bytes(), Path(path).name
    except OSError as error:
        raise CommandFailed(f"cannot read {path}: {error.strerror}", Exit.USAGE) from error


class FormBody:
    """The body of a form, with its type."""

    def __init__(self) -> None:
        self._boundary = RandomEntropy().hex(16)
        self._pieces: list[bytes] = []

    @property
    def content_type(self) -> str:
        return f"multipart/form-data; boundary={self._boundary}"

    @property
    def data(self) -> bytes:
        return b"".join([*self._pieces, f"--{self._boundary}--\r\n".encode()])

    def json(self, name: str, value: Any) -> None:
        """Add a part with a JSON value."""
        self._add(f'name="{name}"', "application/json", json.dumps(value).encode())

    def text(self, name: str, value: str) -> None:
        """Add a part with a text."""
        self._add(f'name="{name}"', "text/plain; charset=utf-8", value.encode())

    def file(self, name: str, content: bytes, file_name: str) -> None:
        """Add a part with a file."""
        escaped = file_name.replace("\\", "_").replace('"', "_").replace("\r", "").replace("\n", "")
        self._add(f'name="{name}"; filename="{escaped}"', "application/octet-stream", content)

    def _add(self, disposition: str, content_type: str, content: bytes) -> None:
        head = f"--{self._boundary}\r\nContent-Disposition: form-data; {disposition}\r\n"
        self._pieces += [f"{head}Content-Type: {content_type}\r\n\r\n".encode(), content, b"\r\n"]


def send_form(connection: ClusterAddress, method: str, path: str, form: FormBody) -> bytes:
    """Send a form and return the body of its answer. Raises CommandFailed."""
    return exchange(connection, method, path, form.data, form.content_type)


def exchange(
    connection: ClusterAddress, method: str, path: str, data: bytes = b"", content_type: str = ""
) -> bytes:
    """Send bytes and return those of the answer. Raises CommandFailed."""
    from magnetar.command.connecting.admin import administered, refusal
    from magnetar.command.connecting.client import run

    async def work() -> bytes:
        async with administered(connection, timeout_s=UPLOAD_S) as admin:
            status, body = await admin.answer_bytes(method, path, data, content_type)
            if status >= 300:
                raise refusal(status, body)
            return body

    return run(work(), connection)
