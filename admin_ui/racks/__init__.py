"""Racks of bookies, changed as previewed."""

from admin_ui.racks.api import RackView
from admin_ui.resource import Resource

RACKS = Resource(routes={"bookies/<seg:bookie>/rack": RackView})
"""REST of racks. The list of bookies shows them."""
