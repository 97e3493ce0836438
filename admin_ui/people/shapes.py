"""Shapes of people."""

from rest_framework import serializers as s

from admin_ui.shapes import ActingRoleShape

DISPLAY_MAX = 150


class PersonChange(s.Serializer[object]):
    display_name = s.CharField(max_length=DISPLAY_MAX, allow_blank=True, required=False, default="")
    roles = ActingRoleShape(many=True, allow_empty=False)
    active = s.BooleanField(default=True, help_text="whether the person may sign in")


class PersonBody(s.Serializer[object]):
    name = s.CharField(max_length=150)
    display_name = s.CharField(max_length=DISPLAY_MAX, allow_blank=True, required=False, default="")
    roles = ActingRoleShape(many=True, allow_empty=False)


class PersonRow(s.Serializer[object]):
    name = s.CharField()
    display_name = s.CharField(allow_blank=True)
    active = s.BooleanField()
    superuser = s.BooleanField()
    roles = ActingRoleShape(many=True)
    provider = s.CharField(allow_blank=True, help_text="empty: signs in by a password")
    must_change_password = s.BooleanField()
    created_at = s.IntegerField()
    last_sign_in_at = s.IntegerField(allow_null=True)
    sessions = s.IntegerField(help_text="open ones")


class PeopleAnswer(s.Serializer[object]):
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = PersonRow(many=True)


class NewPersonAnswer(s.Serializer[object]):
    person = PersonRow()
    one_time_password = s.CharField(help_text="for the next sign-in, which sets another")


class OneTimePassword(s.Serializer[object]):
    one_time_password = s.CharField(help_text="for the next sign-in, which sets another")
