"""Brokers that serve packages, without a network: operations run on a PackageStore, by the wire's form."""

from typing import Any

from engine.admin.client import BrokerAddress
from engine.base.errors import NotReady, Refusal, refusal
from engine.packages.package_handlers import PackageOperations
from engine.packages.package_store import PackageStore
from engine.rpc.operation import Operation, parse_arguments, to_json


class PackageServers:
    """Brokers that share a store. ``down``: how many of them, from the first, do not answer."""

    def __init__(self, packages: PackageStore, count: int = 1) -> None:
        self._handlers = PackageOperations(packages).handlers
        self._count = count
        self.down = 0
        self.failing: dict[str, Refusal] = {}
        """Refusals by the operation's name."""
        self.calls: list[tuple[str, str]] = []
        """Names and principals of the calls."""

    async def brokers(self) -> list[BrokerAddress]:
        return [BrokerAddress(f"b{i}", f"http://b{i}", "") for i in range(self._count)]

    def close(self) -> None:
        return None

    async def call_on(
        self,
        broker: BrokerAddress,
        operation: Operation[Any, Any],
        args: Any,
        *,
        principal: str = "",
    ) -> Any:
        if int(broker.id[1:]) < self.down:
            raise NotReady(f"Broker {broker.id} does not answer")
        self.calls.append((operation.name, principal))
        if operation.name in self.failing:
            raise self.failing[operation.name]
        declared, do = self._handlers[operation.name]
        assert declared is operation
        try:
            return await do(parse_arguments(operation.arguments, to_json(args)))
        except Refusal as error:
            raise refusal(error.code, error.reason) from error
