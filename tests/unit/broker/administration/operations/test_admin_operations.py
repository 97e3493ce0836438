"""The handlers that a broker binds to the declared operations."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest

from engine.admin import api
from engine.packages import package_operations
from engine.rpc.operation import Operation
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time


def declared_operations() -> set[Operation[Any, Any]]:
    modules = [import_module(f"{api.__name__}.{m.name}") for m in iter_modules(api.__path__)]
    modules.append(package_operations)
    values = [value for module in modules for value in vars(module).values()]
    return {value for value in values if isinstance(value, Operation)}


async def test_a_broker_has_a_handler_for_each_operation_and_for_nothing_else() -> None:
    declared = declared_operations()
    assert len({operation.name for operation in declared}) == len(declared)
    bench = AdminBench()
    await bench.start()
    handlers = bench.broker.running.operations.handlers
    await bench.close()
    assert {operation for operation, _ in handlers.values()} == declared
