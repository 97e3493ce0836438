"""Operation that counts the open clients that a change of rights would close. Pure."""

from dataclasses import dataclass, field
from typing import Any

from engine.admin.api.arguments import JsonObject
from engine.admin.api.rights import ADMIN_OF_TENANT
from engine.rpc.operation import Operation


@dataclass(frozen=True, slots=True)
class ChangedRecords:
    """The records of a tenant after a change, by which its clients are judged: the administrators, and with a
    ``namespace``, which then is the only one of which clients are counted, its policies, as far as they give rights."""

    tenant: str
    administrators: list[str]
    namespace: str = ""
    policies: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The right to ask is one on the tenant.
        if self.namespace and not self.namespace.startswith(f"{self.tenant}/"):
            raise ValueError(f"namespace: must be of the tenant {self.tenant}")


LOSSES = Operation("losses", ChangedRecords, JsonObject, ADMIN_OF_TENANT, reads=True)
"""Open clients of the broker that lack their right by the changed records, and those that were closed there since the
broker started because they lost it: ``{"producers", "consumers", "by_proxy", "closed_producers", "closed_consumers"}``.
``by_proxy`` counts those of the open ones that are clients of gateways and proxies. Raises NotReady while a record
cannot be read."""
