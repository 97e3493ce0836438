"""Shapes of a bookie's rack, and of what is told of it."""

from typing import Any

from rest_framework import serializers as s

from admin_ui.shapes import Asked

NAME_CHARS_MAX = 200


class RackBody(Asked):
    """A preview is of a ``rack``; null: none is told any more."""

    amount = "rack"
    rack = s.CharField(required=False, allow_null=True, max_length=NAME_CHARS_MAX)
    group = s.CharField(default="default", max_length=NAME_CHARS_MAX)

    def validate_rack(self, value: Any) -> Any:
        """Placement knows racks, not paths of several parts."""
        inner = None if value is None else value.strip("/")
        if inner is not None and (not inner or "/" in inner):
            raise s.ValidationError("must be a name, with '/' at its beginning and end at most")
        return value


class ToldRack(s.Serializer[object]):
    group = s.CharField()
    rack = s.CharField(help_text="empty: only the rest was told")
    hostname = s.CharField(help_text="kept as it was told; empty: it was not")


class RackPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: this is what is told already")
    at = s.IntegerField()
    before = ToldRack(allow_null=True, help_text="null: nothing is told")
    after = ToldRack(allow_null=True)
    bookies = s.IntegerField(help_text="that ever registered and were not removed for good")
    without_rack = s.IntegerField(help_text="of them then: placement takes them for one rack")
    racks = s.IntegerField(help_text="how many are told of them then")


class RackReceipt(s.Serializer[object]):
    at = s.IntegerField()
    before = ToldRack(allow_null=True)
    after = ToldRack(allow_null=True)
