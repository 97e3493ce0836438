"""The kinds of workers that can run a function: ours, Apache's, or both. Pure."""

import json
from typing import NamedTuple

from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.function_config import WINDOW_KEY
from engine.functions.definitions.records import component_of, role_of

PACKAGES = ("function://", "source://", "sink://")
BUILTIN = "builtin://"


class Abilities(NamedTuple):
    """The kinds of workers that can run a function. Both are false for one that no worker can run."""

    ours: bool
    apaches: bool

    def of(self, *, is_apaches: bool) -> bool:
        """Return whether a worker can run it, by its kind."""
        return self.apaches if is_apaches else self.ours


def abilities_for(metadata: pb.FunctionMetaData) -> Abilities:
    """Return the kinds of workers that can run a function.

    Ours run Python that is built in, or whose code is in the packages. Apache's run all languages, also from their own
    store and from URLs, but no connector in Python, no function in Python that their own interface refuses, and none
    that logs in with a role, for which only our workers issue tokens.
    """
    details = metadata.functionDetails
    path = metadata.packageLocation.packagePath
    if details.runtime != pb.FunctionDetails.PYTHON:
        return Abilities(ours=False, apaches=True)
    is_package = path.startswith(PACKAGES)
    if not is_package and path and not path.startswith(BUILTIN):
        return Abilities(ours=False, apaches=True)
    plain = is_package and component_of(details) == "function" and not _has_extensions(details)
    plain = plain and not role_of(metadata)
    return Abilities(ours=True, apaches=plain)


def _has_extensions(details: pb.FunctionDetails) -> bool:
    """Return whether a function in Python uses what Apache's runtime of Python has not."""
    return (
        details.processingGuarantees == pb.EFFECTIVELY_ONCE
        or details.HasField("retryDetails")
        or _has_window(details.userConfig)
    )


def _has_window(user_config: str) -> bool:
    try:
        config = json.loads(user_config or "{}")
    except ValueError:
        return False
    return isinstance(config, dict) and WINDOW_KEY in config
