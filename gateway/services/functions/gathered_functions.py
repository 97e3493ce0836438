"""Everything deployed on the functions workers of a cluster, gathered while it is looked at."""

import asyncio
import base64
from typing import Any

from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import parse
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine
from gateway.services.feeds.gathered_table import GatheredTable
from gateway.services.feeds.turns import batches
from gateway.services.functions.listed_functions import (
    Deployed,
    FunctionFacts,
    FunctionTable,
    facts_of,
)

Body = dict[str, Any]


class GatheredFunctions(GatheredTable[FunctionTable]):
    """The functions of a cluster, for the event loop of its link; gathering raises Conflict without a worker."""

    def __init__(self) -> None:
        super().__init__("functions", self._gather_from)
        self.parsed = 0
        """Records that were parsed so far."""
        self._facts: dict[str, FunctionFacts] = {}
        """Deployed functions by the stored records of the last table: few change between two tables."""

    async def _gather_from(self, engine: Engine) -> FunctionTable:
        # As the gateway itself: the viewer judges each row.
        workers = engine.functions.acting_for("", lambda operation, changed: None)
        stored, answer = await asyncio.gather(
            workers.stored_functions(), workers.function_figures()
        )
        before, facts = self._facts, dict[str, FunctionFacts]()
        deployed: list[Deployed] = []
        figures: dict[str, Body] = {}
        # Other requests run between the steps.
        for rows in batches(stored):
            for row in rows:
                record = row["metadata"]
                known = before.get(record)
                if known is None:
                    known = facts_of(parse(pb.FunctionMetaData, base64.b64decode(record)))
                    self.parsed += 1
                facts[record] = known
                places = {int(number): worker for number, worker in row["workers"].items()}
                deployed.append(Deployed(known, places))
            await asyncio.sleep(0)
        for rows in batches(answer["metrics"]):
            figures.update((row["name"], row["metrics"]) for row in rows)
            await asyncio.sleep(0)
        self._facts = facts
        return FunctionTable(now_ms(), deployed, figures, answer["silent"])
