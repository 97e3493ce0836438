"""Shapes of brokers, bundles and bookies, and of changes of bundles."""

from rest_framework import serializers as s

from admin_ui.shapes import BacklogOrUnknown, BookieRow, BrokerRow, ChangeBody
from gateway.services.index.rows import KNOWN

ALGORITHMS = {
    "equally": "range_equally_divide",
    "topics": "topic_count_equally_divide",
    "flow": "flow_or_qps_equally_divide",
}
"""Ways to split a bundle, with their names in Pulsar."""
WHERE_ASKED = "specified_positions_divide"


class BrokerWithBundles(BrokerRow):
    bundles = s.IntegerField(help_text="bundles that it owns, by the stored records")


class BrokersAnswer(s.Serializer[object]):
    at = s.IntegerField()
    unowned = s.IntegerField(
        help_text="bundles that no broker owns; a lookup of a topic in one assigns it"
    )
    rows = BrokerWithBundles(many=True)


class AdvertisedAddress(s.Serializer[object]):
    broker = s.CharField(help_text="id of the broker")
    listener = s.CharField(
        help_text="listener whose clients receive the address; empty where the broker has none",
        allow_blank=True,
    )
    url = s.CharField()
    problem = s.CharField(
        help_text="why this gateway cannot connect to it; empty where it can", allow_blank=True
    )


class AddressesAnswer(s.Serializer[object]):
    rows = AdvertisedAddress(many=True)


class BrokerLoad(s.Serializer[object]):
    broker = s.CharField(help_text="its id")
    load = s.FloatField(
        allow_null=True,
        help_text="largest used share of a resource, 0 to 1; null: not known, for the reason in why",
    )
    why = s.CharField(
        allow_blank=True, help_text="why its load is not known; empty where it is known"
    )
    at = s.IntegerField(
        allow_null=True, help_text="when it was reported, by the broker's clock; null: not yet"
    )
    bundles = s.IntegerField(allow_null=True, help_text="bundles that it reported as its own")
    gains = s.IntegerField(
        allow_null=True,
        help_text="bundles that it acquired since its report before; null: not known",
    )
    losses = s.IntegerField(
        allow_null=True, help_text="bundles that it lost since its report before; null: not known"
    )


class NotMoved(s.Serializer[object]):
    """A bundle or broker that load balance leaves as it is."""

    subject = s.CharField(help_text="a bundle, the ids of brokers, or cluster")
    reason = s.CharField(help_text="why it is left as it is")
    kind = s.CharField(help_text="the same while only numbers in the reason change")


class MovedBundle(s.Serializer[object]):
    """A move of a bundle, or a split of one."""

    kind = s.ChoiceField(
        choices=("balance", "operator", "drain", "split"),
        help_text="balance: moved by the leader for its load; operator: moved as a person asked for; drain: moved by a"
        " drained broker; split: divided by its owner",
    )
    bundle = s.CharField(help_text="tenant/namespace/range of hashes")
    from_broker = s.CharField(help_text="id of the broker that it was to leave, or that split it")
    to_broker = s.CharField(
        help_text="id of the broker that it was to go to; empty for a split", allow_blank=True
    )
    reason = s.CharField(help_text="why it was to move, or to be split")
    result = s.CharField(help_text="what became of it; empty: not known", allow_blank=True)
    at = s.IntegerField(help_text="when the leader asked for it, or when it was done")


class DrainedBroker(s.Serializer[object]):
    """A broker that is being drained: its bundles move to other brokers, and it receives none."""

    broker = s.CharField(help_text="its id; it need not be registered")
    since = s.IntegerField()
    by = s.CharField(help_text="who drains it; empty: not known", allow_blank=True)
    left = s.IntegerField(
        allow_null=True, help_text="bundles that it still has; null, as below: it does not answer"
    )
    moved = s.IntegerField(allow_null=True, help_text="bundles that have moved to other brokers")
    unloaded = s.IntegerField(
        allow_null=True, help_text="bundles that were released because their next owner failed"
    )
    refused = NotMoved(many=True, help_text="bundles that could not leave yet; the first hundred")


class LoadBalance(s.Serializer[object]):
    leader = s.CharField(
        allow_null=True, help_text="id of the broker that plans; null: no broker does"
    )
    reason = s.CharField(help_text="why there is no plan; empty: there is one", allow_blank=True)
    at = s.IntegerField(allow_null=True, help_text="when the last plan was made; null: none yet")
    spread = s.FloatField(
        allow_null=True, help_text="standard deviation of the known loads; null: fewer than two"
    )
    spread_max = s.FloatField(
        allow_null=True,
        help_text="standard deviation above which bundles are moved; null: not known",
    )
    loads = BrokerLoad(many=True, help_text="present reports of the registered brokers")
    not_moved = NotMoved(many=True)
    not_split = NotMoved(many=True, help_text="overloaded bundles that their owners do not split")
    silent = s.ListField(
        child=s.CharField(),
        help_text="brokers that did not state which of their bundles are overloaded",
    )
    moves = MovedBundle(many=True, help_text="the last moves and splits, newest first")
    drains = DrainedBroker(many=True, help_text="the brokers that operators drain")


class BundleNumbers(BacklogOrUnknown):
    """Numbers of one bundle, or of several together."""

    topics = s.IntegerField(
        allow_null=True,
        help_text="topics, each partition counted; null, as in all numbers: not known",
    )
    producers = s.IntegerField(allow_null=True)
    consumers = s.IntegerField(allow_null=True)
    msg_rate_in = s.FloatField(allow_null=True)
    msg_rate_out = s.FloatField(allow_null=True)
    bytes_rate_in = s.FloatField(allow_null=True)
    bytes_rate_out = s.FloatField(allow_null=True)


class BundleRow(BundleNumbers):
    tenant = s.CharField()
    namespace = s.CharField(help_text="without the tenant")
    bundle = s.CharField(help_text="its range of hashes, as 0x00000000_0x40000000")
    owner = s.CharField(
        help_text="id of the broker that owns it, or its address when it is not registered; empty: no owner"
    )
    state = s.CharField(help_text="state of its owner: up, slow or down; none without an owner")
    known = s.ChoiceField(choices=KNOWN, help_text="as in TopicRow, the worst of its topics")
    at = s.IntegerField(
        help_text="when its owner counted; without an owner, when the metadata was read"
    )


class BundlesAnswer(s.Serializer[object]):
    at = s.IntegerField()
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = BundleRow(many=True)


class BookieWithRack(BookieRow):
    rack = s.CharField(help_text="as an operator set it; empty: not set")
    group = s.CharField(help_text="group of bookies, set with the rack")


class BookieNeeds(s.Serializer[object]):
    """Needs of the brokers: bookies to create a ledger and to confirm an entry."""

    regions_min = s.IntegerField(
        help_text="regions that must have an entry before it is confirmed; 0: placement is not by regions"
    )
    regions = s.ListField(
        child=s.CharField(), help_text="regions that ledgers are written to; empty: all"
    )
    ensemble = s.IntegerField(help_text="bookies of a new ledger, the largest of all topics")
    ack_quorum = s.IntegerField(
        help_text="bookies that confirm an entry, the largest of all topics"
    )


class BookiesAnswer(s.Serializer[object]):
    at = s.IntegerField()
    rows = BookieWithRack(many=True)
    placement = BookieNeeds(allow_null=True, help_text="null: no broker has reported it")


class BundleChangeBody(ChangeBody):
    """A change without further fields."""


class SplitBundleBody(ChangeBody):
    algorithm = s.ChoiceField(choices=tuple(ALGORITHMS), default="equally")
    unload = s.BooleanField(
        default=False, help_text="whether its owner gives up the parts afterwards"
    )


class BundlePart(s.Serializer[object]):
    bundle = s.CharField(help_text="its range")
    topics = s.IntegerField(allow_null=True, help_text="null: not known")


class BundlePreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: there is nothing to do")
    at = s.IntegerField()
    row = BundleRow()
    brokers = s.IntegerField(help_text="brokers that answer now")
    parts = BundlePart(
        many=True, help_text="parts of a split; empty: there is no place to split it"
    )


class BundleReceipt(s.Serializer[object]):
    change = s.ChoiceField(choices=("unload", "split"))
    at = s.IntegerField()
    before = s.CharField(help_text="its previous owner, as in BundleRow")
    owner = s.CharField(
        allow_null=True,
        help_text="new owner after an unload, empty for none; null: not known, or after a split",
    )
    parts = s.ListField(child=s.CharField(), help_text="ranges of the parts after a split")


class TransferBundleBody(ChangeBody):
    destination = s.CharField(
        default="",
        allow_blank=True,
        help_text="id of the broker that receives the bundle; with a token, as previewed",
    )


class TransferPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: it cannot be moved there, see problem")
    at = s.IntegerField()
    row = BundleRow()
    destination = s.CharField(help_text="id of the broker that receives the bundle")
    state = s.CharField(
        allow_blank=True, help_text="state of that broker: up, slow or down; empty: not known"
    )
    allowed = s.BooleanField(
        allow_null=True, help_text="whether isolation policies allow it there; null: not known"
    )
    problem = s.CharField(allow_blank=True, help_text="why it cannot be moved there; else empty")


class TransferReceipt(s.Serializer[object]):
    at = s.IntegerField()
    before = s.CharField(allow_blank=True, help_text="its previous owner; empty: none")
    destination = s.CharField()
    moved = s.BooleanField(
        help_text="true: the destination owns it; false: it was unloaded only, for the reason"
    )
    reason = s.CharField(allow_blank=True, help_text="why it was unloaded only; else empty")
    owner = s.CharField(
        allow_null=True,
        allow_blank=True,
        help_text="owner right after; empty: none; null: not known",
    )


class DrainBody(ChangeBody):
    """A drain, or its end, without further fields."""


class DrainedBundle(s.Serializer[object]):
    bundle = s.CharField(help_text="tenant/namespace/range of hashes")
    destination = s.CharField(
        allow_blank=True, help_text="id of the broker that receives it; empty: it stays"
    )
    reason = s.CharField(allow_blank=True, help_text="why it stays; else empty")
    topics = s.IntegerField()
    producers = s.IntegerField()
    consumers = s.IntegerField()


class DrainDestination(s.Serializer[object]):
    broker = s.CharField(help_text="its id")
    bundles = s.IntegerField(help_text="bundles that it receives")


class DrainPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: it cannot be drained, see problem")
    at = s.IntegerField()
    broker = s.CharField(help_text="id of the broker that is drained")
    state = s.CharField(allow_blank=True, help_text="as in TransferPreview")
    problem = s.CharField(allow_blank=True, help_text="why it cannot be drained; else empty")
    total = s.IntegerField(help_text="bundles that it owns")
    staying = s.IntegerField(help_text="bundles that no other broker may serve; they stay")
    topics = s.IntegerField(help_text="loaded topics of all these bundles, each partition counted")
    producers = s.IntegerField(help_text="producers that reconnect")
    consumers = s.IntegerField(help_text="consumers that reconnect")
    destinations = DrainDestination(many=True, help_text="most bundles first")
    bundles = DrainedBundle(
        many=True,
        help_text="the first hundred: those that stay, then those with most topics and clients",
    )


class DrainReceipt(s.Serializer[object]):
    """A drain that has begun; getLoadBalance has its progress."""

    at = s.IntegerField()
    broker = s.CharField()
    leaving = s.IntegerField(help_text="bundles that it owned")


class EndDrainPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True)
    at = s.IntegerField()
    drain = DrainedBroker()


class EndDrainReceipt(s.Serializer[object]):
    at = s.IntegerField()
    broker = s.CharField()


class UnloadOwner(s.Serializer[object]):
    broker = s.CharField(help_text="as owner in BundleRow")
    state = s.CharField(help_text="as in BundleRow")
    bundles = s.IntegerField(help_text="number of these bundles that it owns")


class UnloadFigures(BundleNumbers):
    known = s.ChoiceField(choices=KNOWN, help_text="as in BundleRow, the worst of the bundles")
    at = s.IntegerField(help_text="when the oldest of them were counted")


class UnloadPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: there is nothing to unload")
    at = s.IntegerField()
    total = s.IntegerField(help_text="bundles that have an owner now and would be unloaded")
    unowned = s.IntegerField(help_text="bundles of the namespace without an owner; 0 for a broker")
    first = s.ListField(
        child=s.CharField(), help_text="first of these bundles, as tenant/namespace/range"
    )
    brokers = s.IntegerField(help_text="brokers that answer now")
    owners = UnloadOwner(many=True)
    figures = UnloadFigures(help_text="sums of all bundles that would be unloaded")


class UnloadOther(s.Serializer[object]):
    bundle = s.CharField(help_text="as tenant/namespace/range")
    broker = s.CharField(help_text="its owner at the preview")
    outcome = s.ChoiceField(
        choices=("left", "failed", "unknown"),
        help_text="left: no longer as previewed at its turn; failed: not unloaded; unknown: its broker received the"
        " request, and the outcome is not known",
    )
    why = s.CharField()


class UnloadNewOwner(s.Serializer[object]):
    broker = s.CharField(allow_blank=True, help_text="empty: no owner")
    bundles = s.IntegerField()


class UnloadReceipt(s.Serializer[object]):
    at = s.IntegerField()
    total = s.IntegerField(help_text="confirmed bundles: done, left, failed and unknown")
    done = s.IntegerField(help_text="bundles that their brokers unloaded")
    left = s.IntegerField()
    failed = s.IntegerField()
    unknown = s.IntegerField()
    others = UnloadOther(many=True, help_text="bundles that are not done; the first hundred")
    owners = UnloadNewOwner(
        many=True, allow_null=True, help_text="present owners of the done bundles; null: not known"
    )
