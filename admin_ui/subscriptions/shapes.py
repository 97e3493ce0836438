"""Shapes of changes of a subscription's position."""

from rest_framework import serializers as s

from admin_ui.shapes import Asked

ACTIONS = ("skip-all", "skip", "reset", "undo")
COUNT_MAX = (1 << 53) - 1


class SkipAllBody(Asked):
    pass


class SkipBody(Asked):
    amount = "count"
    count = s.IntegerField(
        required=False, min_value=1, max_value=COUNT_MAX, help_text="entries: a batch is one"
    )


class ResetBody(Asked):
    amount = "timestamp"
    timestamp = s.IntegerField(
        required=False,
        min_value=0,
        max_value=COUNT_MAX,
        help_text="milliseconds; the first message published at or after it becomes next",
    )


class UndoBody(Asked):
    amount = "id"
    at_once = True
    id = s.CharField(required=False, max_length=64, help_text="the change to take back")


class Amounts(s.Serializer[object]):
    """Messages, null when storage does not tell, estimated unless ``exact``; beside them entries, of which a batch is
    one."""

    affected = s.IntegerField(allow_null=True, help_text="messages lost or delivered again")
    lost = s.IntegerField(allow_null=True, help_text="unread messages that are never delivered")
    again = s.IntegerField(allow_null=True, help_text="acknowledged messages that come again")
    entries = s.IntegerField()
    lost_entries = s.IntegerField()
    again_entries = s.IntegerField()
    exact = s.BooleanField()


class AffectedMessage(s.Serializer[object]):
    id = s.CharField(help_text="ledger:entry")
    publish_time = s.IntegerField(allow_null=True)
    key = s.CharField(allow_null=True)


class _Moves(Amounts):
    """``from`` and ``to``: the next entry to be delivered before and after."""

    to = s.CharField()

    def get_fields(self) -> dict[str, s.Field]:  # type: ignore[type-arg]
        fields = super().get_fields()
        fields["from"] = s.CharField()  # a keyword, so it cannot be a class attribute
        return fields


class PreviewPart(_Moves):
    partition = s.IntegerField(allow_null=True)
    first = AffectedMessage(allow_null=True)
    last = AffectedMessage(allow_null=True)
    holes = s.IntegerField(help_text="entries between, acknowledged already")
    delayed = s.IntegerField(allow_null=True, help_text="messages not due yet")
    gone = s.IntegerField(help_text="of an undo: entries deleted since")
    moved = s.IntegerField(help_text="of an undo: entries set back by others since")


class Span(s.Serializer[object]):
    to = s.IntegerField()

    def get_fields(self) -> dict[str, s.Field]:  # type: ignore[type-arg]
        return super().get_fields() | {"from": s.IntegerField()}


class AttachedConsumerShape(s.Serializer[object]):
    name = s.CharField()
    address = s.CharField()


class ReceiptPart(_Moves):
    """Of a partition that was changed ``from``, ``to``, the amounts, and what is read afterwards; else ``why``."""

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
    """What a change would do. ``token``, null when too large, confirms exactly that; the change is ``id`` then."""

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
        help_text="how long after the change all that it discards can be brought back; 0: not promised"
    )


class CursorReceipt(Amounts):
    """What was done, counted from it."""

    id = s.CharField()
    at = s.IntegerField()
    change = s.ChoiceField(ACTIONS)
    done = s.BooleanField()
    parts = ReceiptPart(many=True)
    undo = s.CharField(
        allow_null=True,
        help_text="id to undo it by; null: nothing changed, or too large to be kept",
    )
    undo_until = s.IntegerField(
        allow_null=True, help_text="until then all of it can be brought back, ms"
    )
    meanwhile = s.IntegerField()


class NotChanged(s.Serializer[object]):
    """Why a change was not made, or not everywhere; with the parts if it got so far."""

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
    undoes = s.CharField(help_text="the change that this one took back, or empty")
    undo = s.CharField(allow_null=True, help_text="id to undo it by; null: too large to be kept")
    undo_until = s.IntegerField(help_text="until then all of it can be brought back, ms")
    parts = s.ListField(child=s.IntegerField(), help_text="partitions that were changed")


class LastChanges(s.Serializer[object]):
    changes = LastChangeShape(many=True)
    partitions = s.IntegerField(help_text="1 for a topic without")
    unknown = s.ListField(child=s.IntegerField(), help_text="partitions that did not answer")


class DeleteSubscriptionBody(Asked):
    force = s.BooleanField(
        default=False,
        help_text="of a preview: consumers that are connected then are disconnected; else they keep it from being done",
    )


class ConnectedConsumer(AttachedConsumerShape):
    partition = s.IntegerField(allow_null=True)
    connected = s.IntegerField(help_text="when it connected")
    unacked = s.IntegerField(
        help_text="messages that it has not acknowledged; 0 of types that acknowledge in order"
    )


class UnreadPart(s.Serializer[object]):
    partition = s.IntegerField(allow_null=True)
    reason = s.CharField()


class SubscriptionPreview(s.Serializer[object]):
    """What is lost with a subscription. Whatever is published to it until it is gone is lost, too."""

    token = s.CharField(allow_null=True, help_text="null: too large to be confirmed")
    at = s.IntegerField()
    force = s.BooleanField()
    partitions = s.IntegerField(help_text="that have the subscription; 0 of a plain topic")
    durable = s.BooleanField()
    type = s.CharField(help_text="empty before its first consumer")
    entries = s.IntegerField(
        allow_null=True, help_text="that it has not acknowledged; null: not all can be read now"
    )
    messages = s.IntegerField(allow_null=True, help_text="in them; null: storage does not tell")
    exact = s.BooleanField(help_text="of the messages; else they are estimated")
    consumers = ConnectedConsumer(many=True)
    unread = UnreadPart(many=True, help_text="where it cannot be read now")


class DeletedPart(s.Serializer[object]):
    """Of a partition where it was deleted ``entries``, else ``why``."""

    partition = s.IntegerField(allow_null=True)
    done = s.BooleanField()
    entries = s.IntegerField(
        required=False, allow_null=True, help_text="lost; null: they could not be read"
    )
    later = s.IntegerField(
        required=False, allow_null=True, help_text="of them published since the preview"
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
    """Why a subscription was not deleted, or not everywhere; with the parts if it got so far."""

    reason = s.CharField()
    done = s.BooleanField(required=False)
    parts = DeletedPart(many=True, required=False)


class DisconnectBody(Asked):
    """Of a preview ``name`` and ``address`` as of the topic's consumers."""

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
        many=True, help_text="to be disconnected; several only if one client made them alike"
    )
    others = s.IntegerField(help_text="consumers that stay, on the same partition")


class DisconnectReceipt(s.Serializer[object]):
    at = s.IntegerField()
    disconnected = s.IntegerField(help_text="consumers; those that left meanwhile are none")
