"""Trials of functions, as a worker performs them: the code is fetched, run on messages that were given, and removed."""

import asyncio
import base64
import binascii
import shutil
from functools import partial
from pathlib import Path

from engine.admin.api.arguments import JsonObject
from engine.base.entropy import Entropy
from engine.base.errors import InvalidField, InvalidRequest, MagnetarError, NotReady
from engine.functions import worker_operations as api
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import FunctionRecordError, parse
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.trials import TrialRequest, TrialRunner
from engine.functions.worker.running.preparing import DEFAULT_NAME, Preparation
from engine.rpc.operation import Handlers, bind

AT_ONCE_MAX = 2
"""Trials of a worker at a time."""


class TriedFunctions:
    """Trials of one worker. ``runner`` None: it runs none."""

    def __init__(
        self, preparation: Preparation, runner: TrialRunner | None, entropy: Entropy
    ) -> None:
        self._preparation = preparation
        self._runner = runner
        self._entropy = entropy
        self._running = 0

    @property
    def handlers(self) -> Handlers:
        return dict([bind(api.TRY_FUNCTION, self._try)])

    async def _try(self, of: api.TriedFunction) -> JsonObject:
        if self._runner is None or self._running >= AT_ONCE_MAX:
            raise NotReady(f"{AT_ONCE_MAX} trials run on this worker: try again in a while")
        try:
            details = parse(pb.FunctionDetails, base64.b64decode(of.details, validate=True))
            code = base64.b64decode(of.code, validate=True)
        except (binascii.Error, FunctionRecordError) as error:
            raise InvalidField("details", f"are no function: {error}") from error
        self._running += 1
        folder = self._preparation.folder / f"trial-{self._entropy.hex(8)}"
        lane = self._preparation.lane
        try:
            package = folder / (Path(of.file_name).name or DEFAULT_NAME)
            await lane.run(partial(self._preparation.make, folder))
            if code:
                await lane.run(partial(package.write_bytes, code))
            else:
                await self._preparation.fetch(of.package, package)
            metadata = pb.FunctionMetaData(functionDetails=details)
            run = folder / "run"
            request = TrialRequest(metadata, package, run, of.entries, of.messages)
            return await self._runner.run(request)
        except InstanceError as error:
            raise InvalidRequest(str(error)) from error
        except (OSError, MagnetarError) as error:
            if isinstance(error, InvalidRequest | NotReady):
                raise
            raise NotReady(f"the code cannot be fetched: {error}") from error
        finally:
            self._running -= 1
            await asyncio.shield(lane.run(partial(shutil.rmtree, folder, ignore_errors=True)))
