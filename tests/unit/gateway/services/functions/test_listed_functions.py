"""The list of functions is filtered, sorted and cut here, and makes no more of it than a window shows."""

import base64
from itertools import pairwise
from typing import Any, cast

import pytest

from engine.auth.viewer import ALL, Viewer
from engine.base.errors import Conflict
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import encode
from engine.functions.worker_client import WorkerClient
from engine.functions.worker_operations import NO_WORKER
from engine.metadata.memory import MemoryServer
from gateway.services.engine_link import Brokers, Engine
from gateway.services.functions import gathered_functions, listed_functions
from gateway.services.functions.gathered_functions import GatheredFunctions
from gateway.services.functions.listed_functions import (
    FIELDS,
    FunctionFilter,
    FunctionTable,
)

COUNT = 300
FIRST_TENANT = Viewer(namespaces=frozenset({"t0/ns"}))


def record(number: int, version: int = 1) -> str:
    details = pb.FunctionDetails(
        tenant=f"t{number % 3}", namespace="ns", name=f"task-{number:03}", parallelism=1
    )
    details.className = f"work.Task{number % 7}"
    details.source.inputSpecs[f"persistent://t/ns/in-{number}"].SetInParent()
    details.sink.topic = f"persistent://t/ns/out-{number}"
    metadata = pb.FunctionMetaData(functionDetails=details, version=version, createTime=number)
    return base64.b64encode(encode(metadata)).decode()


def metrics(received: int | None) -> dict[str, Any]:
    counts = dict.fromkeys(
        ("receivedTotal", "processedSuccessfullyTotal", "systemExceptionsTotal"), received
    )
    minute = {**counts, "userExceptionsTotal": 0, "avgProcessLatency": received}
    return {**minute, "1min": minute}


class Workers:
    """Workers with COUNT functions, of which every fourth does not answer."""

    def __init__(self) -> None:
        self.rows = [{"metadata": record(n), "workers": {"0": f"w{n % 2}"}} for n in range(COUNT)]
        self.reads = 0

    def acting_for(self, principal: str, account: object) -> "Workers":
        assert principal == ""
        return self

    async def stored_functions(self) -> list[Any]:
        self.reads += 1
        return self.rows

    async def function_figures(self) -> dict[str, Any]:
        answers = [
            {"name": f"t{n % 3}/ns/task-{n:03}:0", "metrics": metrics(60 * (n % 50))}
            for n in range(COUNT)
            if n % 4
        ]
        return {"metrics": answers, "silent": {"w0": "does not answer"}}


def engine_of(workers: Workers | None) -> Engine:
    admin = cast(Brokers, None)
    return Engine(
        MemoryServer().session(), admin, workers=cast(WorkerClient, workers) if workers else None
    )


async def table_of(workers: Workers) -> FunctionTable:
    return await GatheredFunctions().table(engine_of(workers))


async def test_every_field_orders_rows_in_both_directions_with_equals_by_name() -> None:
    table = await table_of(Workers())
    for field in FIELDS:
        for sort in (field, f"-{field}"):
            rows = table.rows(ALL, FunctionFilter(sort=sort), 0, COUNT)
            names = [(row["tenant"], row["name"]) for row in rows]
            assert len(set(names)) == COUNT
            values = [row[field] for row in rows]
            if field == "name":
                assert names == sorted(names, reverse=sort != field)
                continue
            known = [value for value in values if value is not None]
            assert values == known + [None] * (COUNT - len(known)), sort
            assert known == sorted(known, reverse=sort != field), sort
            places = list(zip(values, names, strict=True))
            assert all(a[1] < b[1] for a, b in pairwise(places) if a[0] == b[0]), sort


async def test_filters_are_joined_and_a_viewer_sees_its_namespaces_alone() -> None:
    table = await table_of(Workers())
    assert table.count(ALL, FunctionFilter(component="function")) == COUNT
    assert table.count(ALL, FunctionFilter(component="sink")) == 0
    assert table.count(ALL, FunctionFilter(q="TASK3 in-1")) == sum(
        n % 7 == 3 and "in-1" in f"in-{n}" for n in range(COUNT)
    )
    seen = table.rows(FIRST_TENANT, FunctionFilter(sort="-created_at"), 0, COUNT)
    assert {row["tenant"] for row in seen} == {"t0"}
    assert len(seen) == table.count(FIRST_TENANT, FunctionFilter()) == COUNT // 3


async def test_a_window_by_name_makes_rows_and_sums_of_itself_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = await table_of(Workers())
    made: list[str] = []
    real = listed_functions.sums_of
    monkeypatch.setattr(listed_functions, "sums_of", lambda *of: made.append("") or real(*of))
    assert len(table.rows(ALL, FunctionFilter(), 100, 120)) == len(made) == 20
    table.rows(ALL, FunctionFilter(sort="-received_rate"), 0, 20)
    assert len(made) == COUNT
    table.rows(ALL, FunctionFilter(sort="-failures"), 0, 20)
    assert len(made) == COUNT  # sums are made once for all orders


async def test_only_changed_records_are_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    workers, gathered = Workers(), GatheredFunctions()
    engine = engine_of(workers)
    await gathered.table(engine)
    assert gathered.parsed == COUNT
    workers.rows = [*workers.rows[1:], {"metadata": record(0, version=2), "workers": {}}]
    gathered.forget()
    table = await gathered.table(engine)
    assert (gathered.parsed, workers.reads) == (COUNT + 1, 2)
    (row,) = table.rows(ALL, FunctionFilter(q="task-000"), 0, 9)
    assert (row["version"], row["workers"]) == (2, [])


async def test_without_a_worker_there_is_no_list() -> None:
    with pytest.raises(Conflict, match=NO_WORKER):
        await GatheredFunctions().table(engine_of(None))


async def test_long_work_lets_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[float] = []
    real = gathered_functions.asyncio.sleep

    async def sleep(delay: float) -> None:
        turns.append(delay)
        await real(delay)

    monkeypatch.setattr(gathered_functions.asyncio, "sleep", sleep)
    workers = Workers()
    workers.rows = [{"metadata": record(n), "workers": {}} for n in range(1_200)]
    await table_of(workers)
    assert len(turns) >= 3
