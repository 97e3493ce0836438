"""The support bundle: logs, settings, versions, numbers and the shape of the metadata, without secrets (K5)."""

import asyncio
import importlib.metadata
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from engine.base.clock import SystemClock
from engine.base.disk.files import SystemDisk
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.base.loop import EventLoop
from engine.base.names import decode_name
from engine.base.settings import CONFIG, DEFAULT_FILE, PREFIX, Program, Setting
from engine.metadata import paths
from engine.metadata.copying import RESERVED, walk
from engine.metadata.store import MetadataStore, SessionExpiredError, StoreUnavailableError
from engine.programs import cluster_backups
from engine.programs.process import StartError
from engine.programs.program import connect
from gateway.standalone.data_folder import own_paths, stored_files
from magnetar import __version__
from magnetar.operate.place import OperatedPlace, keep_private
from magnetar.operate.redaction import HIDDEN, Redactor, secrets_in

LOG_BYTES = 4 << 20
"""Bytes of each log's end."""
NODES_MAX = 100_000
ANSWER_BYTES_MAX = 16 << 20
ANSWER_S = 10.0
DOCTOR_S = 60.0
SESSION_TIMEOUT_S = 10.0
PACKAGES = (
    *("django", "djangorestframework", "channels", "daphne", "uvicorn", "celery", "redis"),
    *("cryptography", "protobuf", "kazoo", "rocksdict", "psycopg", "pyspark", "pulsar-client"),
)
ABOUT = """Support bundle of Magnetar {release}.

about.json      versions, machine, processes and their ports, disks, files of the data folder with their sizes
settings.json   settings that were given; values of secret and of unknown ones are hidden
metadata.txt    paths of the metadata and sizes of the values; no values
metrics/        what each process counts
doctor.json     the result of magnetar doctor, where it could run
logs/           the ends of the logs

It has no payloads of messages, no values of the metadata, no properties and no files of secrets. In all texts, values
that look like tokens, passwords or keys, and all secrets that this command knows, are {hidden}. {names}
"""


@dataclass(slots=True)
class Bundle:
    """The files of a bundle, redacted as they are added."""

    redactor: Redactor
    files: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    """Parts that could not be collected, with the reason."""

    def add(self, name: str, text: str) -> None:
        self.files[name] = self.redactor.text(text)

    def add_json(self, name: str, document: Any) -> None:
        self.add(name, json.dumps(document, indent=1, default=str))

    def attempt(self, part: str, collect: Callable[[], None]) -> None:
        """Collect a part; a failure is a line of the bundle, because the rest of it is needed all the more then."""
        try:
            collect()
        except (MagnetarError, StartError, OSError, ValueError, TimeoutError) as error:
            self.failures.append(self.redactor.text(f"{part}: {error}"))


def write_bundle(
    place: OperatedPlace,
    target: Path,
    programs: Sequence[Program[Any]],
    *,
    hash_names: bool = False,
    log_folders: Sequence[Path] = (),
    log_bytes: int = LOG_BYTES,
) -> Bundle:
    """Write a bundle of what can be collected, a ZIP file for this user alone, and return it.

    ``programs``: those whose settings are known. Raises FileExistsError, OSError.
    """
    keep_private()
    if target.exists():
        raise FileExistsError(17, "the file exists: choose another name", str(target))
    bundle = collect(
        place, programs, hash_names=hash_names, log_folders=log_folders, log_bytes=log_bytes
    )
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in bundle.files.items():
            archive.writestr(name, text)
    partial = target.with_name(f"{target.name}.partial")
    with partial.open("wb") as file:
        file.write(data.getvalue())
        file.flush()
        os.fsync(file.fileno())
    partial.rename(target)
    SystemDisk().sync_dir(str(target.absolute().parent))
    return bundle


def collect(
    place: OperatedPlace,
    programs: Sequence[Program[Any]],
    *,
    hash_names: bool = False,
    log_folders: Sequence[Path] = (),
    log_bytes: int = LOG_BYTES,
) -> Bundle:
    """Return a bundle of what can be collected."""
    declared = {setting.variable: setting for program in programs for setting in program.settings()}
    given = given_settings(place, declared)
    known = secrets_in([*secret_values(given), *secret_files(place.data_dir)])
    children = [] if place.cluster else place.running()
    tree: list[str] = []
    names: set[str] = set()
    bundle = Bundle(Redactor(known))
    bundle.attempt("metadata", lambda: tree.extend(_tree(place, children, names)))
    salt = bytes.fromhex(RandomEntropy().hex(16)) if hash_names else b""
    bundle.redactor = Redactor(known, salt, frozenset(names) if hash_names else frozenset())
    shown = [line if not hash_names else _hashed(line, bundle.redactor) for line in tree]
    bundle.add("metadata.txt", "".join(f"{line}\n" for line in shown))
    bundle.attempt("about", lambda: bundle.add_json("about.json", about(place, children)))
    bundle.add_json("settings.json", {name: setting.shown for name, setting in given.items()})
    for child in children:
        bundle.attempt(f"metrics of {child['name']}", partial(_add_metrics, bundle, place, child))
    bundle.attempt("doctor", lambda: _add_doctor(bundle, place))
    for folder in (place.data_dir / "logs", *log_folders):
        for path in sorted(folder.glob("*.log*")) if folder.is_dir() else ():
            bundle.attempt(f"log {path}", partial(_add_log, bundle, path, log_bytes))
    if bundle.failures:
        bundle.add("not-collected.txt", "".join(f"{line}\n" for line in bundle.failures))
    hidden = "Names of tenants, topics and the like are replaced by hashes." if hash_names else ""
    bundle.files["README.txt"] = ABOUT.format(release=__version__, hidden=HIDDEN, names=hidden)
    return bundle


# Settings


@dataclass(frozen=True, slots=True)
class GivenSetting:
    """A setting that the operator gave. ``shown`` is its value, or HIDDEN."""

    value: str
    shown: str


def given_settings(
    place: OperatedPlace, declared: Mapping[str, Setting]
) -> dict[str, GivenSetting]:
    """Return the settings of the environment and of the file. Only values that are declared, and not as secrets, are
    shown; a name that no program declares may be a misspelt secret."""
    names = {setting.name: setting for setting in declared.values() if setting.is_secret}
    names = {**{setting.name: setting for setting in declared.values()}, **names}
    settings: dict[str, GivenSetting] = {}
    for variable, value in sorted(place.environ.items()):
        if variable.startswith(PREFIX):
            settings[variable] = _given(declared.get(variable), value)
    path = place.directory / place.environ.get(CONFIG, DEFAULT_FILE)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return settings
    for key, value in document.items():
        rows = value.items() if isinstance(value, dict) else [("", value)]
        for name, raw in rows:
            settings[f"{path.name}: {f'[{key}] {name}' if name else key}"] = _given(
                names.get(name or key), str(raw)
            )
    return settings


def _given(setting: Setting | None, value: str) -> GivenSetting:
    is_shown = setting is not None and not setting.is_secret
    return GivenSetting(value, value if is_shown or not value else HIDDEN)


def secret_values(given: Mapping[str, GivenSetting]) -> Iterator[str]:
    """Yield the values of hidden settings, and the contents of the files that they name."""
    for setting in given.values():
        if setting.shown == HIDDEN:
            value = setting.value.removeprefix("file://")
            yield value
            yield from _content(Path(value)) if value.startswith("/") else ()


def secret_files(data_dir: Path) -> Iterator[str]:
    """Yield the contents of an instance's secret files of text."""
    files = [data_dir / file.path for file in stored_files(data_dir) if file.secret]
    for path in (*files, data_dir / "set-up-code"):
        if path.suffix != ".sqlite3":
            yield from _content(path)


def _content(path: Path) -> Iterable[str]:
    try:
        if path.stat().st_size <= 1 << 16:
            return [path.read_text(errors="replace")]
    except OSError:
        pass
    return []


# Facts


def about(place: OperatedPlace, children: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return versions, the machine, the processes, and the files of the data folder with their sizes."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    folder = place.data_dir
    disk = shutil.disk_usage(folder if folder.exists() else Path("/"))
    return {
        "at_ms": SystemClock().wall_ms(),
        "magnetar": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "packages": versions,
        "is_cluster": place.cluster,
        "data_dir": str(folder),
        "disk": disk._asdict(),
        "files": {path.name: _size(path) for path in own_paths(folder)},
        "processes": list(children),
    }


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    total = 0
    for item in path.rglob("*") if path.is_dir() else (path,):
        try:
            total += item.lstat().st_size
        except OSError:
            continue  # it was removed meanwhile
    return total


def _add_log(bundle: Bundle, path: Path, size: int) -> None:
    bundle.add(f"logs/{path.name}", tail(path, size))


def tail(path: Path, size: int) -> str:
    """Return the end of a log, from the beginning of a line. Raises OSError."""
    with path.open("rb") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - size))
        data = file.read(size)
    text = data.decode(errors="replace")
    return text if length <= size else text.partition("\n")[2]


# Metadata


def _tree(
    place: OperatedPlace, children: Sequence[Mapping[str, Any]], names: set[str]
) -> list[str]:
    """Return a line for each node, and add the names in their paths to ``names``. Of an instance that does not run
    there is none."""
    if not (place.cluster or children):
        return ["the instance does not run"]

    async def read(settings: cluster_backups.BackupSettings) -> list[str]:
        async with asyncio.timeout(60), connect(settings.metadata, SESSION_TIMEOUT_S) as store:
            return await tree_of(store, names)

    with place.readable() as environ, asyncio.Runner(loop_factory=EventLoop) as runner:
        try:
            return runner.run(read(cluster_backups.load(environ, place.directory)))
        except (StoreUnavailableError, SessionExpiredError) as error:
            raise OSError(str(error)) from error


async def tree_of(store: MetadataStore, names: set[str]) -> list[str]:
    """Return a line for each node: path, bytes of its value, version, and whether it belongs to a session."""
    lines: list[str] = []
    async for node in walk(store, left_out=RESERVED):
        if len(lines) == NODES_MAX:
            lines.append("… and more nodes")
            break
        mark = " ephemeral" if node.stat.ephemeral_owner else ""
        lines.append(f"{node.path} {len(node.value)} bytes, version {node.stat.version}{mark}")
        names.update(_names_of(node.path))
    return lines


_NAMED_TREES = (
    *(paths.POLICIES, paths.LOCAL_POLICIES, paths.PARTITIONED_TOPICS, paths.MANAGED_LEDGERS),
    *(paths.SCHEMAS, paths.NAMESPACE, paths.RESOURCE_GROUPS, paths.BUNDLE_QUOTAS),
)


def _names_of(path: str) -> Iterator[str]:
    """Yield the names of tenants, namespaces, topics and the like in a path, as they are in it and decoded."""
    for tree in _NAMED_TREES:
        if path.startswith(f"{tree}/"):
            for name in path.removeprefix(f"{tree}/").split("/"):
                if name not in ("persistent", "non-persistent"):
                    yield name
                    yield decode_name(name)


def _hashed(line: str, redactor: Redactor) -> str:
    """Return a node's line with the names of its path replaced."""
    path, separator, rest = line.partition(" ")
    for tree in _NAMED_TREES:
        if path.startswith(f"{tree}/"):
            return f"{tree}/{redactor.path(path.removeprefix(f'{tree}/'))}{separator}{rest}"
    return line


# Processes


def _add_metrics(bundle: Bundle, place: OperatedPlace, child: Mapping[str, Any]) -> None:
    """Add a process's metrics."""
    port = child["ports"].get("http")
    if not port or child["state"] != "running":
        return
    headers = {}
    token = place.data_dir / "secure" / "superuser.token"
    if token.exists():
        headers["Authorization"] = f"Bearer {token.read_text().strip()}"
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            text = answer.read(ANSWER_BYTES_MAX).decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            raise OSError(f"status {error.code}") from error
    bundle.add(f"metrics/{child['name']}.txt", text)


def _add_doctor(bundle: Bundle, place: OperatedPlace) -> None:
    """Add the result of ``magnetar doctor``."""
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "magnetar", "doctor", "--json", "--all"),
            *("--data-dir", str(place.data_dir)),
        ],
        env={
            **place.environ,
            "MAGNETAR_DATA_DIR": str(place.data_dir),
            "PYTHONPATH": _search_path(),
        },
        cwd=place.directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DOCTOR_S,
        check=False,
    )
    text = done.stdout if done.stdout.strip() else done.stderr
    bundle.add("doctor.json", text)


def _search_path() -> str:
    return os.pathsep.join(path for path in sys.path if path)
