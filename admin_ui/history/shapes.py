"""Shapes of history."""

from rest_framework import serializers as s


class HistoryAnswer(s.Serializer[object]):
    at = s.IntegerField(
        allow_null=True, help_text="end of the last recorded step; null: none is recorded yet"
    )
    step_ms = s.IntegerField()
    columns = s.ListField(
        child=s.CharField(),
        help_text="names of the numbers in each point: at (end of the step), mean rates per second"
        " of the step, backlog at its end; of a broker its topics instead of a backlog; of a bookie usage of its"
        " fullest disk (0 to 1), bytes used and in total, and ledgers",
    )
    points = s.ListField(
        child=s.ListField(child=s.FloatField(allow_null=True)),
        help_text="oldest first, one per step; null: not known",
    )
