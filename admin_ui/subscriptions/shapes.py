"""Shapes of changes of subscriptions."""

from rest_framework import serializers as s

from admin_ui.shapes import BacklogOrUnknown, ChangeBody, ProblemShape, age_target_s, oldest_at
from engine.admin.api.rows import AGE_TARGET_MAX_S
from engine.base.names import DOMAINS
from gateway.services.index.rows import KNOWN

ACTIONS = ("skip-all", "skip", "reset", "undo")
COUNT_MAX = (1 << 53) - 1
HOLDING_STATES = ("acknowledged", "delivered", "delayed", "waiting", "unknown")
"""States of a message at a subscription; unknown: delivered or waiting."""


class ListedSubscriptionRow(BacklogOrUnknown):
    """A subscription of the list; of a partitioned topic summed over its partitions."""

    name = s.CharField(help_text="full name of the topic")
    domain = s.ChoiceField(choices=DOMAINS)
    tenant = s.CharField()
    namespace = s.CharField(help_text="without the tenant")
    topic = s.CharField()
    subscription = s.CharField()
    type = s.CharField(help_text="empty before the first consumer, and where it is not known")
    loaded = s.BooleanField(allow_null=True, help_text="as in TopicRow, of the topic")
    consumers = s.IntegerField()
    unacked = s.IntegerField(help_text="messages delivered and not acknowledged")
    msg_rate_out = s.FloatField()
    oldest_at = oldest_at()
    age_target_s = age_target_s()
    known = s.ChoiceField(choices=KNOWN, help_text="as in TopicRow")
    at = s.IntegerField(help_text="when these numbers were true")
    attention = ProblemShape(
        allow_null=True, help_text="its most harmful problem; null: none found"
    )


class SubscriptionsAnswer(s.Serializer[object]):
    at = s.IntegerField()
    total = s.IntegerField(help_text="subscriptions that pass the filter")
    unread_topics = s.IntegerField(
        help_text="topics whose subscriptions are not known yet, and are not in the list"
    )
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = ListedSubscriptionRow(many=True)


class AgeTargetBody(s.Serializer[object]):
    seconds = s.IntegerField(
        min_value=1,
        max_value=AGE_TARGET_MAX_S,
        allow_null=True,
        help_text="age that the oldest unacknowledged message is not to exceed; null: no target",
    )


class AgeTarget(s.Serializer[object]):
    seconds = s.IntegerField(allow_null=True)
    properties = s.DictField(
        child=s.CharField(allow_blank=True), help_text="the subscription's properties"
    )


class SkipAllBody(ChangeBody):
    pass


class SkipBody(ChangeBody):
    amount = "count"
    count = s.IntegerField(
        required=False, min_value=1, max_value=COUNT_MAX, help_text="entries: a batch is one"
    )


class ResetBody(ChangeBody):
    amount = "timestamp"
    timestamp = s.IntegerField(
        required=False,
        min_value=0,
        max_value=COUNT_MAX,
        help_text="milliseconds; the first message published at or after it becomes the next one",
    )


class UndoBody(ChangeBody):
    amount = "id"
    at_once = True
    id = s.CharField(required=False, max_length=64, help_text="id of the change to undo")


class Amounts(s.Serializer[object]):
    """Messages, null when storage does not have their number, estimated unless ``exact``; beside them entries, of which
    a batch is one."""

    affected = s.IntegerField(allow_null=True, help_text="messages lost or delivered again")
    lost = s.IntegerField(allow_null=True, help_text="unread messages that are never delivered")
    again = s.IntegerField(
        allow_null=True, help_text="acknowledged messages that are delivered again"
    )
    entries = s.IntegerField()
    lost_entries = s.IntegerField()
    again_entries = s.IntegerField()
    exact = s.BooleanField()


class AffectedMessage(s.Serializer[object]):
    id = s.CharField(help_text="ledger:entry")
    publish_time = s.IntegerField(allow_null=True)
    key = s.CharField(allow_null=True)


class _Moves(Amounts):
    """A move of a cursor. ``from`` and ``to``: the next entry to be delivered before and after it."""

    to = s.CharField()

    def get_fields(self) -> dict[str, s.Field]:  # type: ignore[type-arg]
        fields = super().get_fields()
        fields["from"] = s.CharField()  # a keyword, so it cannot be a class attribute
        return fields


class PreviewPart(_Moves):
    partition = s.IntegerField(allow_null=True)
    first = AffectedMessage(allow_null=True)
    last = AffectedMessage(allow_null=True)
    holes = s.IntegerField(help_text="entries in between that are acknowledged already")
    delayed = s.IntegerField(allow_null=True, help_text="delayed messages that are not due yet")
    gone = s.IntegerField(help_text="for an undo: entries deleted since")
    moved = s.IntegerField(help_text="for an undo: entries that other clients have set back since")


class Span(s.Serializer[object]):
    to = s.IntegerField()

    def get_fields(self) -> dict[str, s.Field]:  # type: ignore[type-arg]
        return super().get_fields() | {"from": s.IntegerField()}


class AttachedConsumerShape(s.Serializer[object]):
    name = s.CharField()
    address = s.CharField()


class ReceiptPart(_Moves):
    """Result of a partition: when it was changed, ``from``, ``to``, the amounts, and the state read afterwards; else
    ``why``."""

    partition = s.IntegerField(allow_null=True)
    done = s.BooleanField()
    mark_delete = s.CharField(required=False)
    meanwhile = s.IntegerField(
        required=False, help_text="entries of the change acknowledged since the preview"
    )
    why = s.ChoiceField(("used", "moved", "trimmed", "refused", "unknown"), required=False)
    reason = s.CharField(required=False)

    def get_fields(self) -> dict[str, s.Field]:  # type: ignore[type-arg]
        fields = super().get_fields()
        for name in (*Amounts().fields, "from", "to"):
            fields[name].required = False
        return fields


class CursorPreview(Amounts):
    """The effect of a change. ``token``, null when too large, confirms exactly that; the change then has the ``id``."""

    id = s.CharField()
    token = s.CharField(allow_null=True)
    direction = s.ChoiceField(("forward", "back", "none"))
    parts = PreviewPart(many=True)
    holes = s.IntegerField()
    delayed = s.IntegerField(allow_null=True)
    gone = s.IntegerField()
    moved = s.IntegerField()
    span = Span(allow_null=True)
    consumers = AttachedConsumerShape(many=True)
    undoable = s.BooleanField()
    kept_ms = s.IntegerField(
        help_text="time after the change during which all that it discards can be restored; 0: not guaranteed"
    )


class CursorReceipt(Amounts):
    """The effect of a change that was made, as counted while it was made."""

    id = s.CharField()
    at = s.IntegerField()
    change = s.ChoiceField(ACTIONS)
    done = s.BooleanField()
    parts = ReceiptPart(many=True)
    undo = s.CharField(
        allow_null=True,
        help_text="id for an undo; null: nothing changed, or too large to be stored",
    )
    undo_until = s.IntegerField(
        allow_null=True, help_text="time until which all of it can be restored, ms"
    )
    meanwhile = s.IntegerField()


class NotChanged(s.Serializer[object]):
    """The reason why a change was not made, or not everywhere; with the parts, if there are results."""

    reason = s.CharField()
    id = s.CharField(required=False)
    undo = s.CharField(required=False, allow_null=True)
    parts = ReceiptPart(many=True, required=False)


class LastChangeShape(Amounts):
    subscription = s.CharField()
    id = s.CharField()
    at = s.IntegerField()
    by = s.CharField()
    change = s.ChoiceField(ACTIONS)
    undoes = s.CharField(help_text="id of the change that this one undid, or empty")
    undo = s.CharField(allow_null=True, help_text="id for an undo; null: too large to be stored")
    undo_until = s.IntegerField(help_text="time until which all of it can be restored, ms")
    parts = s.ListField(child=s.IntegerField(), help_text="partitions that were changed")


class LastChanges(s.Serializer[object]):
    changes = LastChangeShape(many=True)
    partitions = s.IntegerField(help_text="1 for a topic without partitions")
    unknown = s.ListField(child=s.IntegerField(), help_text="partitions that did not answer")


class DeleteSubscriptionBody(ChangeBody):
    force = s.BooleanField(
        default=False,
        help_text="for a preview: connected consumers are disconnected; otherwise they prevent the deletion",
    )


class ConnectedConsumer(AttachedConsumerShape):
    partition = s.IntegerField(allow_null=True)
    connected = s.IntegerField(help_text="when it connected")
    unacked = s.IntegerField(
        help_text="messages that it has not acknowledged; 0 for types that acknowledge in order"
    )


class UnreadPart(s.Serializer[object]):
    partition = s.IntegerField(allow_null=True)
    reason = s.CharField()


class SubscriptionPreview(s.Serializer[object]):
    """Losses with the deletion of a subscription. Messages that are published to it until then are lost, too."""

    token = s.CharField(allow_null=True, help_text="null: too large to be confirmed")
    at = s.IntegerField()
    force = s.BooleanField()
    partitions = s.IntegerField(
        help_text="partitions that have the subscription; 0 for a plain topic"
    )
    durable = s.BooleanField()
    type = s.CharField(help_text="empty before its first consumer")
    entries = s.IntegerField(
        allow_null=True,
        help_text="entries that it has not acknowledged; null: not all can be read now",
    )
    messages = s.IntegerField(
        allow_null=True, help_text="messages in them; null: storage does not have their number"
    )
    exact = s.BooleanField(help_text="whether messages is exact; otherwise it is estimated")
    consumers = ConnectedConsumer(many=True)
    unread = UnreadPart(many=True, help_text="partitions whose entries cannot be read now")


class DeletedPart(s.Serializer[object]):
    """Result of a partition: ``entries`` where the subscription was deleted, else ``why``."""

    partition = s.IntegerField(allow_null=True)
    done = s.BooleanField()
    entries = s.IntegerField(
        required=False, allow_null=True, help_text="lost entries; null: they could not be read"
    )
    later = s.IntegerField(
        required=False,
        allow_null=True,
        help_text="lost entries that were published since the preview",
    )
    why = s.ChoiceField(("refused", "unknown"), required=False)
    reason = s.CharField(required=False)


class SubscriptionReceipt(s.Serializer[object]):
    at = s.IntegerField()
    done = s.BooleanField()
    entries = s.IntegerField(allow_null=True)
    later = s.IntegerField(allow_null=True)
    parts = DeletedPart(many=True)


class NotDeleted(s.Serializer[object]):
    """The reason why a subscription was not deleted, or not everywhere; with the parts, if there are results."""

    reason = s.CharField()
    done = s.BooleanField(required=False)
    parts = DeletedPart(many=True, required=False)


class DisconnectBody(ChangeBody):
    """A disconnection. A preview is of ``name`` and ``address`` as in the topic's consumers."""

    amount = "name"
    name = s.CharField(required=False, trim_whitespace=False, allow_blank=True)
    address = s.CharField(required=False, allow_blank=True)
    partition = s.IntegerField(required=False, allow_null=True, help_text="null of a plain topic")


class DisconnectPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True)
    at = s.IntegerField()
    type = s.CharField()
    durable = s.BooleanField()
    consumers = ConnectedConsumer(
        many=True,
        help_text="consumers to be disconnected; several only if one client created them with the same name",
    )
    others = s.IntegerField(help_text="other consumers on the same partition, which stay connected")


class DisconnectReceipt(s.Serializer[object]):
    at = s.IntegerField()
    disconnected = s.IntegerField(
        help_text="number of consumers; those that left meanwhile are not counted"
    )


class HolderShape(s.Serializer[object]):
    name = s.CharField()
    address = s.CharField()


class HoldingConsumer(HolderShape):
    partition = s.IntegerField(allow_null=True, help_text="null of a plain topic")
    connected = s.IntegerField()
    entries = s.IntegerField(
        allow_null=True, help_text="delivered and not acknowledged; null: not known"
    )
    messages = s.IntegerField(
        allow_null=True, help_text="in them; null: not counted for Exclusive and Failover"
    )
    redelivered = s.IntegerField(help_text="entries sent again since it connected")
    oldest = s.CharField(allow_null=True, help_text="ledger:entry of its first unacknowledged one")
    oldest_at = s.IntegerField(
        allow_null=True, help_text="when that was published; null: not known"
    )
    ranges = s.ListField(
        child=s.ListField(child=s.IntegerField()),
        help_text="of hashes, both ends included; only of Key_Shared",
    )


class UnackedEntry(s.Serializer[object]):
    partition = s.IntegerField(allow_null=True)
    id = s.CharField(help_text="ledger:entry")
    messages = s.IntegerField(
        allow_null=True, help_text="unacknowledged ones of a batch; null: not counted"
    )
    consumer = HolderShape()
    redeliveries = s.IntegerField(help_text="times that it was given back")
    published = s.IntegerField(allow_null=True, help_text="null: could not be read in time")
    slot = s.IntegerField(allow_null=True, help_text="hash of its key; only of Key_Shared")


class DrainingHash(s.Serializer[object]):
    partition = s.IntegerField(allow_null=True)
    slot = s.IntegerField()
    consumer = HolderShape(help_text="former consumer of the hash")
    entries = s.IntegerField(help_text="that it has not acknowledged")
    refused = s.IntegerField(help_text="entries that had to wait for that")


class KeyPlaceShape(s.Serializer[object]):
    partition = s.IntegerField(allow_null=True)
    slot = s.IntegerField(help_text="hash of the key")
    consumer = HolderShape(allow_null=True, help_text="null: no consumer has the hash")
    range = s.ListField(child=s.IntegerField(), allow_null=True, help_text="that has the hash")
    waits_for = HolderShape(
        allow_null=True,
        help_text="former consumer, which has to acknowledge its messages of the hash first",
    )


class DelayedEntry(s.Serializer[object]):
    due = s.IntegerField()
    partition = s.IntegerField(allow_null=True)
    id = s.CharField(help_text="ledger:entry")


class DelayedEntries(s.Serializer[object]):
    entries = s.IntegerField(
        allow_null=True, help_text="null: a partition did not answer; of stored ones at most these"
    )
    rows = DelayedEntry(many=True, help_text="the next ones by due time, without a gap")
    last = s.IntegerField(allow_null=True, help_text="due time of the last one")
    last_is_exact = s.BooleanField(help_text="false: the last one is due at that time or later")


class SilentPartition(s.Serializer[object]):
    partition = s.IntegerField()
    reason = s.CharField()


class HoldersAnswer(s.Serializer[object]):
    at = s.IntegerField()
    type = s.CharField(help_text="empty before its first consumer")
    entries = s.IntegerField(
        allow_null=True, help_text="delivered and not acknowledged; null: not known"
    )
    missing = SilentPartition(many=True, help_text="partitions whose numbers are not in the answer")
    rows_each = s.IntegerField(help_text="most entries that a partition listed")
    consumers = HoldingConsumer(many=True, help_text="those with most entries first")
    consumers_total = s.IntegerField()
    unacked = UnackedEntry(many=True, help_text="oldest first, unknown times last")
    keyed = s.BooleanField(help_text="it is Key_Shared")
    draining = DrainingHash(many=True)
    draining_total = s.IntegerField()
    delayed = DelayedEntries(
        allow_null=True,
        help_text="null: no broker keeps delivery times, without a consumer or for this type",
    )
    keys = KeyPlaceShape(many=True, help_text="of the given key, for each partition")


class MessageAtSubscription(s.Serializer[object]):
    name = s.CharField()
    type = s.CharField(help_text="empty before its first consumer")
    durable = s.BooleanField()
    state = s.ChoiceField(HOLDING_STATES)
    consumer = HolderShape(
        allow_null=True, help_text="that has it, or for which it waits; null: none, or any"
    )
    redeliveries = s.IntegerField(help_text="times that its entry was given back")
    slot = s.IntegerField(allow_null=True, help_text="hash of its key; only of Key_Shared")
    range = s.ListField(child=s.IntegerField(), allow_null=True, help_text="that has the hash")
    waits_for = HolderShape(
        allow_null=True, help_text="consumer that has to acknowledge messages of the hash first"
    )


class MessageHoldersAnswer(s.Serializer[object]):
    at = s.IntegerField()
    deliver_at = s.IntegerField(allow_null=True, help_text="delivery time of a delayed message")
    subscriptions = MessageAtSubscription(many=True, help_text="the first by name")
    total = s.IntegerField(help_text="subscriptions of the topic")
    unread = s.ListField(
        child=s.CharField(),
        help_text="subscriptions that cannot be read now: their states are not known",
    )


class AcknowledgeMessageBody(ChangeBody):
    """An acknowledgement of one message for the subscription. A preview is of ``message``."""

    amount = "message"
    message = s.CharField(
        required=False, max_length=64, help_text="ledger:entry or ledger:entry:index"
    )
    partition = s.IntegerField(required=False, allow_null=True, help_text="null of a plain topic")


class AcknowledgeMessagePreview(s.Serializer[object]):
    token = s.CharField(allow_null=True)
    at = s.IntegerField()
    message = s.CharField()
    partition = s.IntegerField(allow_null=True)
    state = s.ChoiceField(HOLDING_STATES)
    deliver_at = s.IntegerField(allow_null=True)
    consumer = HolderShape(allow_null=True, help_text="as in MessageAtSubscription")


class AcknowledgeMessageReceipt(s.Serializer[object]):
    at = s.IntegerField()
    message = s.CharField()
    was = s.ChoiceField(("held", "acknowledged"), help_text="acknowledged: nothing was changed")
