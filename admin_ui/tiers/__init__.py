"""Tiered storage: where the ledgers of a topic are, moving them now, and objects that no topic names."""

from admin_ui.calls import TOPIC
from admin_ui.resource import Resource
from admin_ui.tiers.api import OrphansView, TopicOffloadView, TopicTiersView

TIERS = Resource(
    routes={
        f"{TOPIC}/tiers": TopicTiersView,
        f"{TOPIC}/offload": TopicOffloadView,
        "tiered-storage/orphans": OrphansView,
    }
)
