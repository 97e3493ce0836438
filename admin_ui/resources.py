"""All resources of the console: a page is a folder here and a line in this list."""

from admin_ui.access import ACCESS
from admin_ui.alerts import ALERTS
from admin_ui.analyses import ANALYSES
from admin_ui.audit import AUDIT
from admin_ui.broker_settings import BROKER_SETTINGS
from admin_ui.changes import CHANGES
from admin_ui.cluster import CLUSTER
from admin_ui.connections import CONNECTIONS
from admin_ui.copies import COPIES
from admin_ui.environment import ENVIRONMENT
from admin_ui.functions import FUNCTIONS
from admin_ui.geo import GEO, GEO_OF_ALL
from admin_ui.grants import GRANTS
from admin_ui.health import HEALTH
from admin_ui.history import HISTORY
from admin_ui.messages import MESSAGES
from admin_ui.overview import OVERVIEW
from admin_ui.payload_rules import PAYLOAD_RULES
from admin_ui.people import PEOPLE
from admin_ui.policies import POLICIES
from admin_ui.racks import RACKS
from admin_ui.repair import REPAIR
from admin_ui.saved_views import SAVED_VIEWS
from admin_ui.schemas import SCHEMAS
from admin_ui.session import SESSION
from admin_ui.subscriptions import SUBSCRIPTIONS
from admin_ui.support import SUPPORT
from admin_ui.tenants import TENANTS
from admin_ui.tiers import TIERS
from admin_ui.tokens import TOKENS
from admin_ui.topics import TOPICS
from admin_ui.transactions import TRANSACTIONS

RESOURCES = (
    SESSION,
    PEOPLE,
    ENVIRONMENT,
    HEALTH,
    HISTORY,
    OVERVIEW,
    ALERTS,
    TOPICS,
    TIERS,
    SUBSCRIPTIONS,
    CHANGES,
    MESSAGES,
    COPIES,
    SCHEMAS,
    CLUSTER,
    CONNECTIONS,
    TRANSACTIONS,
    FUNCTIONS,
    GEO,
    GEO_OF_ALL,
    BROKER_SETTINGS,
    RACKS,
    REPAIR,
    TENANTS,
    POLICIES,
    ACCESS,
    GRANTS,
    TOKENS,
    PAYLOAD_RULES,
    AUDIT,
    SAVED_VIEWS,
    ANALYSES,
    SUPPORT,
)
