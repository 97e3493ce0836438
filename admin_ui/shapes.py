"""Shapes of the console API's answers and bodies, as serializers: the OpenAPI document comes from them, and bodies are
checked by them. Answers are plain dictionaries; a test holds them against these shapes. Here are those that several
resources share.

64-bit ids are strings, times integer milliseconds since the epoch, rates numbers per second.
"""

from rest_framework import serializers as s

from engine.base.names import DOMAINS
from gateway.services.rows import KNOWN


class Reason(s.Serializer[object]):
    reason = s.CharField()
    field = s.CharField(required=False)
    hop = s.CharField(required=False, help_text="what does not answer, as of getHealth")
    request_id = s.CharField(required=False)


class TopicRow(s.Serializer[object]):
    name = s.CharField(help_text="full name, domain://tenant/namespace/topic")
    domain = s.ChoiceField(choices=DOMAINS)
    tenant = s.CharField()
    namespace = s.CharField(help_text="without the tenant")
    topic = s.CharField()
    partitions = s.IntegerField(help_text="0 for a plain topic")
    loaded = s.BooleanField(
        allow_null=True,
        help_text="some broker has it loaded; null: not known, a broker does not answer",
    )
    producers = s.IntegerField(allow_null=True, help_text="null, as of all numbers: not known")
    consumers = s.IntegerField(allow_null=True)
    subscriptions = s.IntegerField(allow_null=True)
    msg_rate_in = s.FloatField(allow_null=True)
    msg_rate_out = s.FloatField(allow_null=True)
    bytes_rate_in = s.FloatField(allow_null=True)
    bytes_rate_out = s.FloatField(allow_null=True)
    backlog = s.IntegerField(allow_null=True, help_text="entries, summed over subscriptions")
    storage_bytes = s.IntegerField(allow_null=True)
    known = s.ChoiceField(
        choices=KNOWN,
        help_text="at_rest: stored, and no broker has it loaded; live: as its broker just counted; last: as they were "
        "at 'at', for whoever knows does not answer; no: not known",
    )
    at = s.IntegerField(help_text="when these numbers were true")
