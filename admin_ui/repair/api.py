"""REST of the repair of ledgers."""

from typing import ClassVar

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import Call, ClusterView, Parameter, PreviewedView, Shape, actor_of, checked
from admin_ui.repair import selectors, services, shapes
from engine.auth.rights import SUPERUSER
from gateway.http.bodies import json_answer

BOOKIE = Parameter("bookie", "its id, as in listBookies", place="path")


class RepairView(ClusterView):
    """Marked ledgers, who repairs them, and bookies that are away or being taken out."""

    read_rights = SUPERUSER
    calls = {"get": Call("getRepair", shapes.RepairAnswer)}

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(
            await self.work(lambda engine: selectors.repair(self.viewer, self.cluster, engine))
        )


class BlastRadiusView(ClusterView):
    """Copies that topics keep if a bookie dies now."""

    read_rights = SUPERUSER
    calls = {"get": Call("getBlastRadius", shapes.BlastRadiusAnswer, (BOOKIE,), errors=(404,))}

    async def get(self, request: HttpRequest, bookie: str) -> HttpResponse:
        return json_answer(
            await self.work(
                lambda engine: selectors.radius(self.viewer, self.cluster, engine, bookie)
            )
        )


def _changes(
    operation: str, preview: Shape, receipt: Shape, body: Shape, *path: Parameter
) -> dict[str, Call]:
    errors = (400, 403, 404, 409) if path else (400, 403, 409)
    return {"post": Call(operation, (preview, receipt), path, body=body, errors=errors)}


class RepairChangeView(PreviewedView):
    """A change of repair, previewed and confirmed."""

    write_rights = SUPERUSER
    for_operators: ClassVar[frozenset[str]] = frozenset({"POST"})


class RepairSwitchView(RepairChangeView):
    """Turn auto-recovery of the cluster on or off."""

    calls = _changes(
        "switchRepair",
        shapes.RepairSwitchPreview,
        shapes.RepairSwitchReceipt,
        shapes.RepairSwitchBody,
    )

    async def post(self, request: HttpRequest) -> HttpResponse:
        body, user = checked(shapes.RepairSwitchBody, request), actor_of(request)
        return await self.previewed(
            body,
            lambda engine: services.preview_switch(self.cluster, engine, body.get("on"), user),
            lambda engine, token: services.switch(self.cluster, engine, user, token),
        )


class LostDelayView(RepairChangeView):
    """Change the time that lost bookies are waited for, which postpones the repair of one that is away."""

    calls = _changes(
        "setLostBookieDelay",
        shapes.LostDelayPreview,
        shapes.LostDelayReceipt,
        shapes.LostDelayBody,
    )

    async def post(self, request: HttpRequest) -> HttpResponse:
        body, user = checked(shapes.LostDelayBody, request), actor_of(request)
        seconds = body.get("seconds")
        return await self.previewed(
            body,
            lambda engine: services.preview_delay(self.cluster, engine, seconds, user),
            lambda engine, token: services.set_delay(self.cluster, engine, user, token),
        )


class RepairAuditView(RepairChangeView):
    """Audit now: mark the ledgers of bookies that are away without waiting."""

    calls = _changes(
        "triggerAudit", shapes.AuditPreview, shapes.AuditReceipt, shapes.RepairChangeBody
    )

    async def post(self, request: HttpRequest) -> HttpResponse:
        user = actor_of(request)
        return await self.previewed(
            checked(shapes.RepairChangeBody, request),
            lambda engine: services.preview_audit(self.cluster, engine, user),
            lambda engine, token: services.audit(self.cluster, engine, user, token),
        )


class DecommissionView(RepairChangeView):
    """Take a bookie that is stopped for good out of the cluster: its ledgers are copied to others, then its cookie is
    removed."""

    calls = _changes(
        "decommissionBookie",
        shapes.DecommissionPreview,
        shapes.DecommissionReceipt,
        shapes.RepairChangeBody,
        BOOKIE,
    )

    async def post(self, request: HttpRequest, bookie: str) -> HttpResponse:
        user = actor_of(request)
        return await self.previewed(
            checked(shapes.RepairChangeBody, request),
            lambda engine: services.preview_decommission(self.cluster, engine, bookie, user),
            lambda engine, token: services.decommission(self.cluster, engine, bookie, user, token),
        )


class WithdrawDecommissionView(RepairChangeView):
    """Withdraw a decommission. What is marked is copied all the same, and the cookie stays."""

    calls = _changes(
        "withdrawDecommission",
        shapes.WithdrawPreview,
        shapes.WithdrawReceipt,
        shapes.RepairChangeBody,
        BOOKIE,
    )

    async def post(self, request: HttpRequest, bookie: str) -> HttpResponse:
        user = actor_of(request)
        return await self.previewed(
            checked(shapes.RepairChangeBody, request),
            lambda engine: services.preview_withdraw(engine, bookie, user),
            lambda engine, token: services.withdraw(self.cluster, engine, bookie, user, token),
        )
