"""Links to and from other clusters: both directions with their figures, and the topics that are behind, with causes."""

from admin_ui.geo.api import GeoOfAllView, GeoView, LinkView
from admin_ui.geo.live import GEO_CHANNEL, LINK_CHANNEL
from admin_ui.resource import Resource

GEO_OF_ALL = Resource(routes={"geo": GeoOfAllView})
GEO = Resource(
    routes={"geo": GeoView, "geo/links/<seg:remote>": LinkView},
    channels=(GEO_CHANNEL, LINK_CHANNEL),
)
