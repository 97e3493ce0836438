"""Shapes of brokers, bundles and bookies, and of what is done with a bundle."""

from rest_framework import serializers as s

from admin_ui.shapes import Asked, BacklogOrUnknown, BookieRow, BrokerRow
from gateway.services.index.rows import KNOWN

ALGORITHMS = {
    "equally": "range_equally_divide",
    "topics": "topic_count_equally_divide",
    "flow": "flow_or_qps_equally_divide",
}
"""How a bundle may be cut, with Pulsar's names."""
WHERE_ASKED = "specified_positions_divide"


class BrokerWithBundles(BrokerRow):
    bundles = s.IntegerField(help_text="that it owns, by what is stored")


class BrokersAnswer(s.Serializer[object]):
    at = s.IntegerField()
    unowned = s.IntegerField(help_text="bundles that no broker owns: whoever asks has one taken")
    rows = BrokerWithBundles(many=True)


class BundleNumbers(BacklogOrUnknown):
    """Of one bundle, or of several as one."""

    topics = s.IntegerField(
        allow_null=True, help_text="with each partition; null, as of all numbers: not known"
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
        help_text="id of the broker that owns it, or its address when it is not registered; empty: nobody"
    )
    state = s.CharField(help_text="of its owner: up, slow or down; none without one")
    known = s.ChoiceField(choices=KNOWN, help_text="as of TopicRow, the worst of its topics")
    at = s.IntegerField(help_text="when its owner counted; without one, when the rest was read")


class BundlesAnswer(s.Serializer[object]):
    at = s.IntegerField()
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = BundleRow(many=True)


class BookieWithRack(BookieRow):
    rack = s.CharField(help_text="as an operator told it; empty: nobody did")
    group = s.CharField(help_text="of bookies, as told with the rack")


class BookiesAnswer(s.Serializer[object]):
    at = s.IntegerField()
    rows = BookieWithRack(many=True)


class BundleChangeBody(Asked):
    """Of what needs no more."""


class SplitBundleBody(Asked):
    algorithm = s.ChoiceField(choices=tuple(ALGORITHMS), default="equally")
    unload = s.BooleanField(default=False, help_text="its owner gives up the parts afterwards")


class BundlePart(s.Serializer[object]):
    bundle = s.CharField(help_text="its range")
    topics = s.IntegerField(allow_null=True, help_text="null: not known")


class BundlePreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: there is nothing to be done")
    at = s.IntegerField()
    row = BundleRow()
    brokers = s.IntegerField(help_text="that answer now")
    parts = BundlePart(many=True, help_text="of a split; empty: there is no place to cut it")


class BundleReceipt(s.Serializer[object]):
    change = s.ChoiceField(choices=("unload", "split"))
    at = s.IntegerField()
    before = s.CharField(help_text="who owned it, as of BundleRow")
    owner = s.CharField(
        allow_null=True,
        help_text="of an unload: who owns it by now, empty for nobody; null: not known, or of a split",
    )
    parts = s.ListField(child=s.CharField(), help_text="of a split: ranges that there are now")


class UnloadOwner(s.Serializer[object]):
    broker = s.CharField(help_text="as the owner of BundleRow")
    state = s.CharField(help_text="as of BundleRow")
    bundles = s.IntegerField(help_text="of those, how many it owns")


class UnloadFigures(BundleNumbers):
    known = s.ChoiceField(choices=KNOWN, help_text="as of BundleRow, the worst of the bundles")
    at = s.IntegerField(help_text="when the oldest of them were counted")


class UnloadPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: there is nothing to be given up")
    at = s.IntegerField()
    total = s.IntegerField(help_text="bundles that have an owner now: those that would be given up")
    unowned = s.IntegerField(help_text="bundles of the namespace without an owner; of a broker 0")
    first = s.ListField(child=s.CharField(), help_text="some, as tenant/namespace/range")
    brokers = s.IntegerField(help_text="that answer now")
    owners = UnloadOwner(many=True)
    figures = UnloadFigures(help_text="of all that would be given up together")


class UnloadOther(s.Serializer[object]):
    bundle = s.CharField(help_text="as tenant/namespace/range")
    broker = s.CharField(help_text="its owner at the preview")
    outcome = s.ChoiceField(
        choices=("left", "failed", "unknown"),
        help_text="left: not as previewed any more when its turn came; failed: not given up; unknown: its broker was"
        " asked, and it is not known whether it gave it up",
    )
    why = s.CharField()


class UnloadNewOwner(s.Serializer[object]):
    broker = s.CharField(allow_blank=True, help_text="empty: nobody")
    bundles = s.IntegerField()


class UnloadReceipt(s.Serializer[object]):
    at = s.IntegerField()
    total = s.IntegerField(help_text="bundles that were confirmed: done, left, failed and unknown")
    done = s.IntegerField(help_text="that their brokers said they gave up")
    left = s.IntegerField()
    failed = s.IntegerField()
    unknown = s.IntegerField()
    others = UnloadOther(many=True, help_text="those that are not done; the first hundred")
    owners = UnloadNewOwner(
        many=True, allow_null=True, help_text="of what is done, by now; null: not known"
    )
