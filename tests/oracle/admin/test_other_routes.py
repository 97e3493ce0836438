"""Routes that no other test asks of both sides, in one order."""

import pytest

from tests.oracle.conftest import Side
from tests.oracle.test_rest import differences, parsed

N = "/admin/v2/namespaces/others"
T = "/admin/v2/persistent/others/ns"
M = "/admin/v2/non-persistent/others/ns"
F = "/admin/v3/functions/others/ns/f"
CALLS = f"""
PUT /admin/v2/tenants/others {{"adminRoles":[],"allowedClusters":["standalone"]}}
PUT {N}/ns
GET /admin/v2/brokers/ready
GET {N}/ns/maxUnackedMessagesPerConsumer
POST {N}/ns/maxUnackedMessagesPerConsumer 5
POST {N}/ns/maxUnackedMessagesPerConsumer -1
POST {N}/missing/maxUnackedMessagesPerConsumer 5
GET {N}/ns/maxUnackedMessagesPerConsumer
DELETE {N}/ns/maxUnackedMessagesPerConsumer
GET {N}/ns/maxUnackedMessagesPerConsumer
GET {N}/ns/maxUnackedMessagesPerSubscription
POST {N}/ns/maxUnackedMessagesPerSubscription 7
POST {N}/ns/maxUnackedMessagesPerSubscription -1
GET {N}/ns/maxUnackedMessagesPerSubscription
DELETE {N}/ns/maxUnackedMessagesPerSubscription
DELETE {N}/missing/maxUnackedMessagesPerSubscription
GET {N}/ns/maxUnackedMessagesPerSubscription
PUT {T}/parted/partitions 2
POST {T}/parted/createMissedPartitions
POST {T}/missing/createMissedPartitions
GET {T}/parted/partitioned-stats
GET {T}/missing/partitioned-stats
GET {M}
GET /admin/v2/non-persistent/others/missing
PUT {M}/np
PUT {M}/np
PUT {M}/parted/partitions 2
PUT {M}/parted/partitions 2
GET {M}/parted/partitions
GET {M}/parted/partitioned-stats
GET {M}/missing/partitioned-stats
GET {M}/partitioned
DELETE {M}/missing
DELETE {M}/np
DELETE {M}/parted/partitions
GET {M}/partitioned
GET /lookup/v2/topic/persistent/others/ns/parted-partition-0
GET /lookup/v2/topic/persistent/others/missing/t
GET /lookup/v2/topic/persistent/missing/ns/t
GET /lookup/v2/topic/non-persistent/others/ns/np
GET /admin/v3/functions/connectors
GET /admin/v3/functions/builtins
GET /admin/v3/functions/download?path=function://others/ns/f@1
POST {F}/start
POST {F}/stop
POST {F}/restart
POST {F}/0/start
POST {F}/0/stop
POST {F}/0/restart
GET {F}/state/k
POST /admin/v3/sources/others/ns/s/0/start
POST /admin/v3/sources/others/ns/s/0/stop
POST /admin/v3/sources/others/ns/s/0/restart
POST /admin/v3/sinks/others/ns/s/0/start
POST /admin/v3/sinks/others/ns/s/0/stop
POST /admin/v3/sinks/others/ns/s/0/restart
GET /admin/v2/worker/connectors
GET /admin/v3/packages/function/others/ns/p/v1
GET /admin/v3/packages/function/others/ns/p/v1/metadata
GET /admin/v3/transactions/coordinatorStats
GET /admin/v3/transactions/transactionBufferStats/others/ns/parted-partition-0
GET /admin/v3/transactions/transactionMetadata/0/1
DELETE {T}/parted/partitions
DELETE {N}/ns
DELETE /admin/v2/tenants/others
"""


@pytest.mark.timeout(300)
def test_the_remaining_routes_answer_as_apaches(sides: tuple[Side, Side]) -> None:
    wrong = differences(sides, map(parsed, CALLS.strip().splitlines()))
    assert not wrong, "\n".join(wrong)
