"""Shapes of a bookie's rack, and of its changes."""

from typing import Any

from rest_framework import serializers as s

from admin_ui.shapes import ChangeBody

NAME_CHARS_MAX = 200


class RackBody(ChangeBody):
    """A change of a rack. A preview needs ``rack``; null removes it."""

    amount = "rack"
    rack = s.CharField(required=False, allow_null=True, max_length=NAME_CHARS_MAX)
    group = s.CharField(default="default", max_length=NAME_CHARS_MAX)

    def validate_rack(self, value: Any) -> Any:
        """Check that the rack is a name, or that of a region and one in it."""
        parts = [] if value is None else value.strip("/").split("/")
        if len(parts) > 2 or "" in parts:
            raise s.ValidationError("must be a name such as /rack-1, or /region/rack-1")
        return value


class RackSetting(s.Serializer[object]):
    group = s.CharField()
    rack = s.CharField(help_text="empty: only other fields are set")
    hostname = s.CharField(help_text="kept as it was set; empty: not set")


class RackPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: this rack is set already")
    at = s.IntegerField()
    before = RackSetting(allow_null=True, help_text="null: not set")
    after = RackSetting(allow_null=True)
    bookies = s.IntegerField(
        help_text="bookies that were ever registered and are not removed for good"
    )
    without_rack = s.IntegerField(
        help_text="bookies without a rack after the change: placement treats them as one rack"
    )
    racks = s.IntegerField(help_text="number of different racks after the change")


class RackReceipt(s.Serializer[object]):
    at = s.IntegerField()
    before = RackSetting(allow_null=True)
    after = RackSetting(allow_null=True)
