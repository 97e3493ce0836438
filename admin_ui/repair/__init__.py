"""Repair of ledgers: what has too few copies, and bookies that leave."""

from admin_ui.repair.api import (
    BlastRadiusView,
    DecommissionView,
    LostDelayView,
    RepairAuditView,
    RepairSwitchView,
    RepairView,
    WithdrawDecommissionView,
)
from admin_ui.resource import Resource

REPAIR = Resource(
    routes={
        "repair": RepairView,
        "repair/switch": RepairSwitchView,
        "repair/delay": LostDelayView,
        "repair/audit": RepairAuditView,
        "bookies/<seg:bookie>/blast-radius": BlastRadiusView,
        "bookies/<seg:bookie>/decommission": DecommissionView,
        "bookies/<seg:bookie>/decommission/withdraw": WithdrawDecommissionView,
    }
)
