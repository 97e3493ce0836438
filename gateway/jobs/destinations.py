"""Copies of the files of runs at a configured URL: a folder of a file system, of S3, Google's or Azure's storage.

A run that succeeded has the folder ``<run id>.<attempt>`` there, with its files, ``result.json``, and last of all
``manifest.json``, which lists the others: stores of objects cannot rename a folder, so that a folder without a manifest
is not complete. Credentials are those that pyarrow finds in the worker's environment.
"""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from engine.base.errors import MagnetarError
from gateway.jobs.models import JobRun

log = logging.getLogger(__name__)
MANIFEST = "manifest.json"
RESULT = "result.json"
PIECE_BYTES = 1 << 20


class DestinationError(MagnetarError):
    """The output URL does not take the files of a run. The text is for users."""


def publish(url: str, run: JobRun, directory: Path, result: dict[str, Any]) -> str:
    """Copy the files of an attempt and its result, then the manifest; return the URL of the folder.

    Folders of earlier attempts, which are no longer wanted, are removed. Raises DestinationError.
    """
    name = f"{run.id}.{run.attempt}"
    remove(url, run, range(1, run.attempt))
    try:
        system, base = _opened(url)
        folder = f"{base}/{name}"
        system.create_dir(folder, recursive=True)
        files = [
            {"name": path.name, **_copy(system, path, f"{folder}/{path.name}")}
            for path in sorted(directory.iterdir())
            if path.is_file()
        ]
        _write(system, f"{folder}/{RESULT}", json.dumps(result).encode())
        manifest = {"run": run.id, "analysis": run.analysis, "files": files}
        _write(system, f"{folder}/{MANIFEST}", json.dumps(manifest, indent=1).encode())
    except (OSError, ValueError, NotImplementedError) as error:
        raise DestinationError(f"the output URL {url} does not take the files: {error}") from error
    return f"{url.rstrip('/')}/{name}"


def remove(url: str, run: JobRun, attempts: range) -> None:
    """Remove the folders of attempts. An error is only logged: the manifest alone makes a folder count."""
    from pyarrow.fs import FileType

    try:
        for attempt in attempts:
            system, base = _opened(url)
            folder = f"{base}/{run.id}.{attempt}"
            if system.get_file_info(folder).type is FileType.Directory:
                system.delete_dir(folder)
    except (OSError, ValueError, NotImplementedError) as error:
        log.warning("files of run %s at %s could not be removed: %s", run.id, url, error)


def _opened(url: str) -> tuple[Any, str]:
    """Return the file system of the URL and the path on it."""
    from pyarrow.fs import FileSystem

    system, base = FileSystem.from_uri(url)
    return system, base.rstrip("/")


def _copy(system: Any, source: Path, target: str) -> dict[str, Any]:
    """Copy a file; return its size and hash."""
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as file, system.open_output_stream(target) as stream:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
            stream.write(piece)
    return {"bytes": size, "sha256": digest.hexdigest()}


def _write(system: Any, target: str, data: bytes) -> None:
    with system.open_output_stream(target) as stream:
        stream.write(data)
