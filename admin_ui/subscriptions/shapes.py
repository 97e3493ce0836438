"""Shapes of changes of a subscription's position."""

from rest_framework import serializers as s


class SkipAllBody(s.Serializer[object]):
    preview = s.BooleanField(default=False)


class SkipBody(s.Serializer[object]):
    preview = s.BooleanField(default=False)
    count = s.IntegerField(min_value=1, max_value=(1 << 53) - 1, help_text="messages")


class ResetBody(s.Serializer[object]):
    preview = s.BooleanField(default=False)
    timestamp = s.IntegerField(
        min_value=0,
        max_value=(1 << 53) - 1,
        help_text="milliseconds; the first message published at or after it becomes next",
    )


class Commands(s.Serializer[object]):
    curl = s.CharField()
    pulsar_admin = s.CharField()


class CursorChange(s.Serializer[object]):
    """A preview has ``affected``, ``from`` and ``to``; an applied change has ``done`` and ``commands``."""

    affected = s.IntegerField(required=False, help_text="entries dropped or redelivered")
    to = s.CharField(required=False, allow_null=True, help_text="mark-delete position after")
    done = s.BooleanField(required=False)
    commands = Commands(required=False)

    def get_fields(self) -> dict[str, s.Field]:  # type: ignore[type-arg]
        fields = super().get_fields()
        # ``from`` is a keyword, so it cannot be a class attribute.
        fields["from"] = s.CharField(
            required=False, allow_null=True, help_text="mark-delete position before"
        )
        return fields
