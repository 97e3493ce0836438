"""The table of policies: names, stored paths, forms, defaults, routes and commands. Pure.

REST routes, effective values, the console's forms and the command lines that it shows need nothing but a row. Code that
acts on a policy reads its effective value (``in_force``). Names and JSON forms are those of Apache Pulsar 4.0.8.
"""

from engine.tenancy.policies.cluster_rows import CLUSTERS
from engine.tenancy.policies.lifecycle_rows import LIFECYCLE
from engine.tenancy.policies.limit_rows import LIMITS
from engine.tenancy.policies.message_rows import MESSAGES
from engine.tenancy.policies.policy import Policy
from engine.tenancy.policies.rate_rows import RATES
from engine.tenancy.policies.schema_rows import SCHEMAS
from engine.tenancy.policies.storage_rows import STORAGE

POLICIES: tuple[Policy, ...] = (
    *STORAGE,
    *LIMITS,
    *LIFECYCLE,
    *MESSAGES,
    *RATES,
    *SCHEMAS,
    *CLUSTERS,
)
"""All policies, in the order in which the console shows them."""
BY_NAME = {policy.name: policy for policy in POLICIES}
SIZE_QUOTA = BY_NAME["backlogQuota.destination_storage"]
AGE_QUOTA = BY_NAME["backlogQuota.message_age"]
RETENTION = BY_NAME["retention"]
SUBSCRIPTION_RATE = BY_NAME["subscriptionDispatchRate"]
REPLICATION = BY_NAME["replication"]
ALLOWED_CLUSTERS = BY_NAME["allowedClusters"]
OFFLOADING = BY_NAME["offloadPolicies"]
