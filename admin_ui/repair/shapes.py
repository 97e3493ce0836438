"""Shapes of repair and of its changes."""

from rest_framework import serializers as s

from admin_ui.shapes import ChangeBody

DELAY_MAX_S = 30 * 86_400


class MarkedLedgerRow(s.Serializer[object]):
    ledger = s.IntegerField()
    owner = s.CharField(
        allow_blank=True,
        help_text="full name of the topic, or what else it belongs to; empty: not known",
    )
    bookies = s.ListField(child=s.CharField(), help_text="bookies on which its copies are missing")
    since = s.IntegerField(allow_null=True, help_text="when it was marked; null: not known")
    size = s.IntegerField(
        allow_null=True,
        help_text="bytes to copy; null: it is open, or its metadata is not readable",
    )
    open = s.BooleanField(help_text="whether it is still written, or was not closed")
    worker = s.CharField(allow_null=True, help_text="who repairs it now; null: no one")


class RepairWorker(s.Serializer[object]):
    worker = s.CharField(help_text="id of the bookie, or of the process of auto-recovery")
    ledgers = s.IntegerField(help_text="marked ledgers that it repairs now")


class LostBookie(s.Serializer[object]):
    """A bookie that is away and has a cookie."""

    bookie = s.CharField()
    since = s.IntegerField(help_text="since when it is away, as far as this gateway knows")
    due = s.IntegerField(
        allow_null=True,
        help_text="about when its ledgers are marked; null: they are, or auto-recovery is off, or the delay is not"
        " known",
    )
    ledgers = s.IntegerField(help_text="marked ledgers that name it, of the rows that were read")


class DecommissionRow(s.Serializer[object]):
    """A bookie that the auditor takes out."""

    bookie = s.CharField()
    by = s.CharField(allow_blank=True)
    at = s.IntegerField()
    first = s.IntegerField(
        allow_null=True, help_text="ledgers that named it at the begin; null: not counted yet"
    )
    left = s.IntegerField(allow_null=True, help_text="ledgers that still do; null: not counted yet")
    counted = s.IntegerField(allow_null=True, help_text="when they were counted")
    waits = s.CharField(allow_blank=True, help_text="why nothing is copied; else empty")
    drain = s.BooleanField(help_text="true: it is copied while it serves, read-only")


class RepairAnswer(s.Serializer[object]):
    at = s.IntegerField()
    enabled = s.BooleanField(help_text="whether auto-recovery is on in the cluster")
    auditor = s.CharField(allow_null=True, help_text="its id; null: no process is the auditor")
    delay_s = s.FloatField(
        allow_null=True,
        help_text="time that a lost bookie is waited for; null: no auditor has run yet",
    )
    ledgers = s.IntegerField(help_text="marked ledgers")
    all = s.BooleanField(help_text="false: there are more marked ledgers than were counted")
    size = s.IntegerField(help_text="bytes to copy of the closed ledgers that were read")
    sized = s.IntegerField(help_text="number of ledgers in size")
    oldest = s.IntegerField(allow_null=True, help_text="time of the oldest mark; null: none")
    ledgers_per_s = s.FloatField(
        allow_null=True, help_text="ledgers that become whole in a second; null: not known, or none"
    )
    bytes_per_s = s.FloatField(allow_null=True, help_text="null: not known, or none")
    seconds_left = s.FloatField(
        allow_null=True, help_text="time until none is marked, at that speed; null: not known"
    )
    workers = RepairWorker(many=True)
    lost = LostBookie(many=True)
    decommissions = DecommissionRow(many=True)
    rows = MarkedLedgerRow(many=True, help_text="the first hundred, oldest mark first")


class WeakOwnerRow(s.Serializer[object]):
    owner = s.CharField(help_text="full name of a topic, or what else has ledgers there")
    ledgers = s.IntegerField()
    size = s.IntegerField(help_text="bytes of its closed ledgers there, of one copy")
    copies = s.IntegerField(
        help_text="copies on other bookies that serve now, of the entries with the fewest"
    )


class CopiesCount(s.Serializer[object]):
    copies = s.IntegerField(help_text="copies that are left")
    owners = s.IntegerField(help_text="topics and other owners of ledgers")


class BlastRadiusAnswer(s.Serializer[object]):
    """Copies that remain of the entries on a bookie if it dies now."""

    at = s.IntegerField(help_text="when the metadata of the ledgers was read")
    bookie = s.CharField()
    ledgers = s.IntegerField()
    open = s.IntegerField(help_text="ledgers that are written, or were not closed")
    size = s.IntegerField(help_text="bytes that it holds of closed ledgers")
    of_ledgers = s.IntegerField(help_text="ledgers of the cluster")
    counts = CopiesCount(many=True, help_text="fewest copies first")
    weakest = WeakOwnerRow(many=True, help_text="the hundred with the fewest copies")


class RepairChangeBody(ChangeBody):
    """A change without further fields."""


class RepairSwitchBody(ChangeBody):
    on = s.BooleanField(
        required=False, help_text="with a preview: whether auto-recovery is to be on"
    )


class LostDelayBody(ChangeBody):
    seconds = s.IntegerField(
        required=False,
        min_value=0,
        max_value=DELAY_MAX_S,
        help_text="with a preview: time that a lost bookie is waited for; 0 also starts an audit",
    )


class RepairSwitchPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: it is so already")
    at = s.IntegerField()
    on = s.BooleanField()
    ledgers = s.IntegerField(help_text="marked ledgers now")


class RepairSwitchReceipt(s.Serializer[object]):
    at = s.IntegerField()
    on = s.BooleanField()


class LostDelayPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: it is so already")
    at = s.IntegerField()
    seconds = s.IntegerField()
    before_s = s.FloatField(
        allow_null=True, help_text="present delay; null: no auditor has run yet"
    )
    lost = LostBookie(many=True, help_text="bookies that are away, with the new delay")


class LostDelayReceipt(s.Serializer[object]):
    at = s.IntegerField()
    seconds = s.IntegerField()


class AuditPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: it cannot be done, see problem")
    at = s.IntegerField()
    problem = s.CharField(allow_blank=True)
    lost = LostBookie(
        many=True, help_text="bookies that are away, whose ledgers are marked without waiting"
    )


class AuditReceipt(s.Serializer[object]):
    at = s.IntegerField()


class DecommissionPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: it cannot be done, see problem")
    at = s.IntegerField()
    bookie = s.CharField()
    state = s.CharField(help_text="as in listBookies")
    problem = s.CharField(allow_blank=True, help_text="why it cannot be done; else empty")
    drain = s.BooleanField(
        help_text="true: it serves, so it becomes read-only and is copied first; its process is stopped afterwards"
    )
    ledgers = s.IntegerField(help_text="ledgers that name it")
    open = s.IntegerField(help_text="open ones, which are closed first unless they are written")
    size = s.IntegerField(help_text="bytes to copy of closed ledgers")
    stored = s.IntegerField(
        allow_null=True,
        help_text="bytes to copy with those of open ledgers, as it last reported; null: not known",
    )
    free = s.IntegerField(
        allow_null=True, help_text="free bytes of the other writable bookies; null: not all known"
    )
    others = s.IntegerField(help_text="other writable bookies")
    ensemble = s.IntegerField(
        allow_null=True,
        help_text="bookies that a new ledger needs; null: no broker has reported it",
    )
    seconds = s.FloatField(
        allow_null=True, help_text="about how long it takes, at the present speed; null: not known"
    )
    counts = CopiesCount(many=True, help_text="as in getBlastRadius")


class DecommissionReceipt(s.Serializer[object]):
    """A decommission that was asked for; getRepair has its progress."""

    at = s.IntegerField()
    bookie = s.CharField()


class WithdrawPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True)
    at = s.IntegerField()
    decommission = DecommissionRow()


class WithdrawReceipt(s.Serializer[object]):
    at = s.IntegerField()
    bookie = s.CharField()
