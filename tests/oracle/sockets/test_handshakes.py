"""Handshakes that both WebSocket services accept, and the statuses with which they refuse the others."""

import base64
import json
import uuid
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.oracle.conftest import Side

TERMINATED = "persistent/{t}/one/terminated"
PARTS = "persistent/{t}/one/parts"
TOPIC = "persistent/{t}/one/topic"
WRAPPED = base64.b64encode(b"wrapped").decode()


def keys(body: object) -> str:
    return "encryptionKeys=" + quote(base64.b64encode(json.dumps(body).encode()), safe="")


PRODUCERS = [
    "sendTimeoutMillis=-1", "sendTimeoutMillis=0", "sendTimeoutMillis=", "sendTimeoutMillis=x",
    "sendTimeoutMillis=99999999999", "initialSequenceId=abc", "initialSequenceId=-5",
    "hashingScheme=", "hashingScheme=Murmur3_32Hash", "producerName=", "producerName=%20",
    "compressionType=lz4", "compressionType=SNAPPY", "messageRoutingMode=CustomPartition",
    "messageRoutingMode=x", "batchingEnabled=true&batchingMaxMessages=0",
    "batchingEnabled=true&batchingMaxMessages=-1", "batchingEnabled=true&batchingMaxMessages=x",
    "batchingMaxMessages=x", "batchingEnabled=true&batchingMaxPublishDelay=0",
    "batchingEnabled=true&maxPendingMessages=0", "batchingEnabled=true&maxPendingMessages=-1",
    "maxPendingMessages=x", "token=abc", "accessMode=Exclusive",
    "encryptionKeys=a,b", "encryptionKeys=", "encryptionKeys=bm8=",
    keys({"k": {"keyValue": WRAPPED, "metadata": {"m": "1"}}}),
    keys({"k": {"keyValue": WRAPPED, "unknown": 1}}),
    keys({"k": {"keyValue": WRAPPED}, "j": {}}), keys({" ": {"keyValue": WRAPPED}}),
    keys({"k": {"keyValue": None}}), keys({"k": {"keyValue": "***"}}), keys({}), keys([]),
    keys({"k": {"keyValue": WRAPPED, "metadata": 5}}), keys({"k": None}),
    keys({"k": {"keyValue": WRAPPED}, "j": None}),
    keys({"k": {"keyValue": WRAPPED}}) + "&compressionType=bogus&batchingMaxMessages=x",
]  # fmt: skip
CONSUMERS = [
    "ackTimeoutMillis=0", "ackTimeoutMillis=1", "ackTimeoutMillis=999", "ackTimeoutMillis=1000",
    "ackTimeoutMillis=-1", "ackTimeoutMillis=x", "ackTimeoutMillis=", "subscriptionType=shared",
    "subscriptionType=", "subscriptionType=Key_Shared", "subscriptionMode=NonDurable",
    "subscriptionMode=x", "subscriptionInitialPosition=earliest", "receiverQueueSize=0",
    "receiverQueueSize=-1", "receiverQueueSize=99999", "receiverQueueSize=", "consumerName=",
    "consumerName=%20", "priorityLevel=-1", "priorityLevel=x", "negativeAckRedeliveryDelay=-1",
    "negativeAckRedeliveryDelay=0", "negativeAckRedeliveryDelay=x", "maxRedeliverCount=0",
    "maxRedeliverCount=-1", "maxRedeliverCount=x", "maxRedeliverCount=1", "deadLetterTopic=",
    "deadLetterTopic=a", "maxRedeliverCount=1&deadLetterTopic=", "cryptoFailureAction=x",
    "cryptoFailureAction=CONSUME", "pullMode=x",
]  # fmt: skip
READERS = [
    "messageId=", "messageId=%20", "messageId=earliest", "messageId=EARLIEST", "messageId=zzz",
    "messageId=***", "messageId=CAAQAA%3D%3D", "receiverQueueSize=-1", "receiverQueueSize=0",
    "receiverQueueSize=x", "readerName=", "cryptoFailureAction=x",
]  # fmt: skip
PATHS = [
    f"v2/producer/{TERMINATED}", f"v2/consumer/{TERMINATED}/s", f"v2/reader/{TERMINATED}",
    f"v2/reader/{TERMINATED}?messageId=earliest", "v2/producer/persistent/{t}/closed/x",
    "v2/consumer/persistent/{t}/closed/x/s", "v2/reader/persistent/{t}/closed/x",
    "v2/producer/non-persistent/{t}/one/n", "v2/consumer/non-persistent/{t}/one/n/s",
    "v2/reader/non-persistent/{t}/one/n", "v2/reader/non-persistent/{t}/one/n?messageId=earliest",
    f"v2/producer/{PARTS}", f"v2/consumer/{PARTS}/s", f"v2/reader/{PARTS}",
    f"v2/producer/{PARTS}-partition-1", f"v2/producer/{PARTS}-partition-9",
    f"v2/consumer/{PARTS}-partition-9/s", f"v2/reader/{PARTS}-partition-9",
    "v2/producer/persistent/{t}/none/x", "v2/consumer/persistent/{t}/none/x/s",
    "v2/reader/persistent/{t}/none/x", "v2/producer/persistent/{t}-none/one/x",
    "v2/consumer/non-persistent/{t}-none/one/x/s", "v2/producer/bogus/{t}/one/x",
    "v2/consumer/bogus/{t}/one/x/s", "v2/reader/bogus/{t}/one/x", "v2/producer/persistent/{t}",
    "v2/producer/persistent/{t}/one", "v2/producer/persistent/{t}/one/",
    "v2/producer/persistent/{t}/one/%20", f"v2/consumer/{TOPIC}", f"v2/consumer/{TOPIC}/",
    f"v2/consumer/{TOPIC}/s/more", f"v2/consumer/{TOPIC}/%20", f"v2/consumer/{TOPIC}/a%2Fb",
    "v2/producer/persistent/{t}/one/a/b", "v2/reader/persistent/{t}/one/a%2Fb",
    "v2/producer/persistent/{t}/one/x%00y", f"v2/bogus/{TOPIC}", "v2/pingpong", "v2/",
    "producer/persistent/{t}/standalone/one/x", "consumer/persistent/{t}/standalone/one/x/s",
    "v3/consumer/s", "v3/consumer/s?topics=", "v3/consumer/s?topicsPattern=",
    "v3/consumer/s?topics=a&topicsPattern=b", "v3/consumer/s?topics=a,,b",
    "v3/consumer/s?topics=persistent://{t}/one/a,persistent://{t}/one/b",
    "v3/consumer/s?topics=persistent://{t}/none/a", "v3/consumer/s?topics=bogus://a/b/c",
    "v3/consumer/s?topicsPattern=persistent://{t}/one/a.*", "v3/consumer/?topics=a",
    "v3/consumer/s?topicsPattern=persistent://{t}/one/[",
]  # fmt: skip
TRIED = (
    [f"v2/producer/{TOPIC}?{query}" for query in PRODUCERS]
    + [f"v2/consumer/{TOPIC}/s{n}?{query}" for n, query in enumerate(CONSUMERS)]
    + [f"v2/reader/{TOPIC}?{query}" for query in READERS]
    + PATHS
)


@pytest.fixture(scope="module")
def tenant(sides: tuple[Side, Side]) -> Iterator[str]:
    """The same on both sides, with a namespace for topics, and one where none may come to be."""
    name = f"ws-{uuid.uuid4().hex[:8]}"
    for side in sides:
        assert side.put(f"/admin/v2/tenants/{name}", {"allowedClusters": ["standalone"]}) == 204
        for namespace in ("one", "closed"):
            assert side.put(f"/admin/v2/namespaces/{name}/{namespace}") == 204
        path = f"/admin/v2/namespaces/{name}/closed/autoTopicCreation"
        assert side.post(path, {"allowAutoTopicCreation": False}) == 204
        terminated = f"/admin/v2/{TERMINATED.format(t=name)}"
        assert side.put(terminated) == 204
        assert side.post(f"{terminated}/terminate") == 200
        assert side.put(f"/admin/v2/{PARTS.format(t=name)}/partitions", 3) == 204
    return name


def handshake(side: Side, path: str) -> int:
    try:
        with connect(f"{side.http.replace('http', 'ws')}/ws/{path}", open_timeout=60):
            return 101
    except InvalidStatus as refused:
        return int(refused.response.status_code)


@pytest.mark.parametrize("path", TRIED)
def test_both_answer_with_the_same_status(sides: tuple[Side, Side], tenant: str, path: str) -> None:
    theirs, ours = (handshake(side, path.format(t=tenant)) for side in sides)
    assert ours == theirs


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"v2/producer/{TOPIC}?producerName=same", f"v2/producer/{TOPIC}?producerName=same"),
        (f"v2/consumer/{TOPIC}/alone", f"v2/consumer/{TOPIC}/alone"),
        (f"v2/consumer/{TOPIC}/kind", f"v2/consumer/{TOPIC}/kind?subscriptionType=Shared"),
        (f"v2/consumer/{TOPIC}/both?subscriptionType=Failover", f"v2/consumer/{TOPIC}/both?subscriptionType=Failover"),
        (f"v2/reader/{TOPIC}", f"v2/reader/{TOPIC}"),
    ],
)  # fmt: skip
def test_the_second_of_two_gets_the_same_status(
    sides: tuple[Side, Side], tenant: str, first: str, second: str
) -> None:
    statuses = []
    for side in sides:
        base = f"{side.http.replace('http', 'ws')}/ws/"
        with connect(base + first.format(t=tenant), open_timeout=60):
            statuses.append(handshake(side, second.format(t=tenant)))
    theirs, ours = statuses
    assert ours == theirs
