"""The handlers that a broker binds to the declared operations."""

from pathlib import Path

from engine.admin import api
from engine.admin.operation import Operation
from tests.support.admin.bench import AdminBench


async def test_a_broker_has_a_handler_for_each_operation_and_for_nothing_else(
    tmp_path: Path,
) -> None:
    declared = {value for value in vars(api).values() if isinstance(value, Operation)}
    assert len({operation.name for operation in declared}) == len(declared)
    bench = AdminBench(tmp_path)
    await bench.start()
    handlers = bench.broker.running.operations.handlers
    await bench.close()
    assert {operation for operation, _ in handlers.values()} == declared
