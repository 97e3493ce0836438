"""Shapes of the settings of brokers. Values are texts, as brokers are told them."""

from rest_framework import serializers as s

from admin_ui.shapes import Asked

VALUE_CHARS_MAX = 1000


class SettingValue(s.Serializer[object]):
    value = s.CharField()
    brokers = s.ListField(child=s.CharField(), help_text="ids of those that it is the value of")


class BrokerReason(s.Serializer[object]):
    broker = s.CharField(help_text="its id")
    reason = s.CharField()


class SettingRow(s.Serializer[object]):
    name = s.CharField(help_text="Pulsar's")
    meaning = s.CharField()
    allowed = s.CharField(help_text="what it may be, in words that follow 'must be'")
    choices = s.ListField(child=s.CharField(), help_text="all it may be; empty: other than a few")
    default = s.CharField()
    stored = s.CharField(allow_null=True, help_text="for all brokers; null: nothing is")
    values = SettingValue(many=True, help_text="in force, that of most brokers first")
    started = SettingValue(many=True, help_text="what they were started with, in the same order")
    behind = BrokerReason(many=True, help_text="that answer, but do not act by what is stored")


class OtherSetting(s.Serializer[object]):
    name = s.CharField()
    stored = s.CharField()


class SettingsAnswer(s.Serializer[object]):
    at = s.IntegerField()
    brokers = s.IntegerField(help_text="that answered")
    silent = BrokerReason(many=True, help_text="that did not: what they act by is not known")
    rows = SettingRow(many=True)
    others = OtherSetting(many=True, help_text="stored, but known by none of the brokers")


class SettingBody(Asked):
    """A preview is of a ``value``; null removes what is stored."""

    amount = "value"
    value = s.CharField(
        required=False,
        allow_null=True,
        allow_blank=True,
        trim_whitespace=False,
        max_length=VALUE_CHARS_MAX,
    )


class SettingPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: this is what is stored already")
    at = s.IntegerField()
    row = SettingRow(help_text="as it is")
    would_be = SettingValue(many=True, help_text="what would be in force")
    brokers = s.IntegerField(help_text="that answer")
    silent = BrokerReason(many=True, help_text="what they would do is not known")


class SettingReceipt(s.Serializer[object]):
    at = s.IntegerField()
    row = SettingRow(
        allow_null=True, help_text="as it is now; null: it was stored, and no broker says more"
    )
    silent = BrokerReason(many=True, help_text="whether they follow is not known")
