"""The schema of a topic: its versions, checks of a candidate, and the next version."""

from admin_ui.calls import TOPIC
from admin_ui.resource import Resource
from admin_ui.schemas.api import RehearsalView, SchemasView, SchemaView, VerdictView
from admin_ui.schemas.live import SCHEMAS_CHANNEL

SCHEMAS = Resource(
    routes={
        f"{TOPIC}/schemas": SchemasView,
        f"{TOPIC}/schemas/verdict": VerdictView,
        f"{TOPIC}/schemas/rehearsal": RehearsalView,
        f"{TOPIC}/schemas/<seg:version>": SchemaView,
    },
    channels=(SCHEMAS_CHANNEL,),
)
