"""The runtimes by name."""

from pathlib import Path

from engine.functions.runtime.cpu_groups import NO_GROUPS, CpuGroups
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.ports import InstanceRuntime
from engine.functions.runtime.processes import ProcessRuntime
from engine.functions.runtime.threads import ThreadRuntime
from engine.functions.runtime.unpacking import Unpacker


def runtime_of(
    name: str, environments: Path, *, index: bool = False, groups: CpuGroups = NO_GROUPS
) -> InstanceRuntime:
    """Return the runtime ``process`` or ``thread``, or that of Apache's factory class. Raises InstanceError.

    ``environments``, ``index``: as of Unpacker; ``groups``: as of ProcessRuntime.
    """
    kind = name.rpartition(".")[2].removesuffix("RuntimeFactory").lower()
    unpacker = Unpacker(environments, index=index)
    if kind == "process":
        return ProcessRuntime(unpacker, groups)
    if kind == "thread":
        return ThreadRuntime(unpacker)
    if kind == "kubernetes":
        raise InstanceError("runtime kubernetes is not supported: use process or thread")
    raise InstanceError(f"runtime {name!r} is unknown: process or thread")
