"""Messages as files of a folder."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.functions.connectors.built_in import BuiltIn, ConnectorEnd
from engine.functions.connectors.connector_settings import fields, text
from engine.functions.connectors.files.files_source import SOURCE_SETTINGS, FilesSource
from engine.functions.connectors.objects.bundling_sink import BundlingSink, bundle_fields
from engine.functions.connectors.spi import ConnectorError
from engine.offload.object_store import ObjectStore
from engine.offload.stores.folder_store import FolderStore

SINK_SETTINGS = fields(
    ("folder",),
    folder=text("Folder", "Folder on the worker's machine, which is made if it is missing"),
    **bundle_fields(),
)


class FilesSink(BundlingSink):
    """A sink of files that appear complete, by a rename, and are on the disk then."""

    async def store(self, settings: Mapping[str, Any]) -> ObjectStore:
        """See ``BundlingSink``."""
        folder = Path(settings["folder"])
        try:
            await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        except OSError as error:
            raise ConnectorError(f"configs.folder: {error}") from error
        return FolderStore(folder)


FILES = BuiltIn(
    "files",
    "Reads and writes files of a folder",
    source=ConnectorEnd(
        FilesSource,
        SOURCE_SETTINGS,
        "effectively once",
        "Each line or file is published once, where the output topic deduplicates (EFFECTIVELY_ONCE). Files are "
        "only added to, and not renamed to a name that the pattern matches.",
    ),
    sink=ConnectorEnd(
        FilesSink,
        SINK_SETTINGS,
        "effectively once",
        "Each message is in one file with EFFECTIVELY_ONCE; else a message may be in two after a failure.",
    ),
)
