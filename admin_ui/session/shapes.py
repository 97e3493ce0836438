"""Shapes of the caller's own session."""

from rest_framework import serializers as s

from admin_ui.shapes import ActingRoleShape
from gateway.sign_in import LEVELS

NAME_MAX = 150
SECRET_MAX = 1_000


def secret() -> s.CharField:
    """Return the field of a password, whose spaces count."""
    return s.CharField(max_length=SECRET_MAX, trim_whitespace=False)


class SignInProvider(s.Serializer[object]):
    name = s.CharField()
    title = s.CharField()
    href = s.CharField(help_text="where the browser goes; `?next=` is a path of the console")


class SignedInPerson(s.Serializer[object]):
    name = s.CharField(help_text="the person's name; of a caller by token or certificate its role")
    display_name = s.CharField(allow_blank=True)
    method = s.CharField(help_text="session, token, basic, tls or none: how the caller is known")
    role = s.CharField(help_text="the role that acts")
    level = s.ChoiceField(choices=LEVELS)
    roles = ActingRoleShape(many=True, help_text="what a session may act as, in order")
    viewing_as = s.CharField(allow_null=True, help_text="the role that a superuser looks as")
    superuser = s.BooleanField(help_text="whether it may do everything, besides looking as a role")
    reads_everything = s.BooleanField(
        help_text="whether it reads what superusers do: its acting role is theirs, at any level"
    )
    may_change_password = s.BooleanField()
    ends_at = s.IntegerField(allow_null=True, help_text="when the session or the token ends")


class SessionAnswer(s.Serializer[object]):
    authentication = s.BooleanField()
    authorization = s.BooleanField()
    set_up_needed = s.BooleanField(
        help_text="whether the first person is to be created, with the one-time code of the gateway"
    )
    password_sign_in = s.BooleanField()
    providers = SignInProvider(many=True)
    person = SignedInPerson(allow_null=True)


class SignInBody(s.Serializer[object]):
    name = s.CharField(max_length=NAME_MAX)
    password = secret()
    new_password = s.CharField(
        max_length=SECRET_MAX,
        trim_whitespace=False,
        required=False,
        default="",
        allow_blank=True,
        help_text="instead of a password that is for one sign-in",
    )


class SignInRefusal(s.Serializer[object]):
    reason = s.CharField()
    retry_after_s = s.IntegerField(required=False, help_text="of 429")
    password_change_needed = s.BooleanField(
        required=False, help_text="of 409: the same again with `new_password`"
    )


class SignOutAnswer(s.Serializer[object]):
    end_session_href = s.CharField(
        allow_null=True, help_text="where the browser goes to sign out at the provider, too"
    )


class SetUpBody(s.Serializer[object]):
    code = s.CharField(max_length=100)
    name = s.CharField(max_length=NAME_MAX)
    password = secret()


class ActingRoleBody(s.Serializer[object]):
    role = s.CharField(max_length=255)


class ViewAsBody(s.Serializer[object]):
    role = s.CharField(max_length=255, allow_null=True)


class PasswordBody(s.Serializer[object]):
    current = secret()
    new = secret()
