"""Shapes of the settings of brokers. Values are texts, as brokers read them."""

from rest_framework import serializers as s

from admin_ui.shapes import ChangeBody

VALUE_CHARS_MAX = 1000


class SettingValue(s.Serializer[object]):
    value = s.CharField()
    brokers = s.ListField(child=s.CharField(), help_text="ids of the brokers that have this value")


class BrokerReason(s.Serializer[object]):
    broker = s.CharField(help_text="its id")
    reason = s.CharField()


class SettingRow(s.Serializer[object]):
    name = s.CharField(help_text="Pulsar's")
    meaning = s.CharField()
    allowed = s.CharField(help_text="the allowed values, in words that follow 'must be'")
    choices = s.ListField(
        child=s.CharField(), help_text="all allowed values; empty: not a fixed list"
    )
    default = s.CharField()
    stored = s.CharField(allow_null=True, help_text="value stored for all brokers; null: none")
    values = SettingValue(many=True, help_text="values in force, that of most brokers first")
    started = SettingValue(
        many=True, help_text="values that brokers were started with, in the same order"
    )
    behind = BrokerReason(
        many=True, help_text="brokers that answer but do not use the stored value"
    )


class OtherSetting(s.Serializer[object]):
    name = s.CharField()
    stored = s.CharField()


class SettingsAnswer(s.Serializer[object]):
    at = s.IntegerField()
    brokers = s.IntegerField(help_text="brokers that answered")
    silent = BrokerReason(
        many=True, help_text="brokers that did not answer: their values are not known"
    )
    rows = SettingRow(many=True)
    others = OtherSetting(many=True, help_text="stored, but known by none of the brokers")


class SettingBody(ChangeBody):
    """A change of a setting. A preview needs ``value``; null removes the stored value."""

    amount = "value"
    value = s.CharField(
        required=False,
        allow_null=True,
        allow_blank=True,
        trim_whitespace=False,
        max_length=VALUE_CHARS_MAX,
    )


class SettingPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: this value is stored already")
    at = s.IntegerField()
    row = SettingRow(help_text="the setting as it is")
    would_be = SettingValue(many=True, help_text="values that would be in force")
    brokers = s.IntegerField(help_text="brokers that answer")
    silent = BrokerReason(
        many=True, help_text="brokers that do not answer: the effect there is not known"
    )


class SettingReceipt(s.Serializer[object]):
    at = s.IntegerField()
    row = SettingRow(
        allow_null=True,
        help_text="the setting as it is now; null: the value is stored, and no broker answers",
    )
    silent = BrokerReason(
        many=True, help_text="brokers that do not answer: whether they follow is not known"
    )
