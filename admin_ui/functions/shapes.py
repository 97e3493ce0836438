"""Shapes of functions, sources and sinks."""

from rest_framework import serializers as s

from admin_ui.functions.selectors import KINDS
from admin_ui.functions.services import VERBS
from admin_ui.shapes import ChangeBody
from engine.functions.worker_operations import TRIED_MESSAGES_MAX


class FunctionRow(s.Serializer[object]):
    """A function, source or sink. Figures are sums of the instances that answer, null without any."""

    component = s.ChoiceField(KINDS)
    tenant = s.CharField()
    namespace = s.CharField()
    name = s.CharField()
    connector = s.CharField(allow_blank=True, help_text="built-in connector; empty: own code")
    class_name = s.CharField(allow_blank=True)
    state = s.CharField(
        help_text="running, partly running, starting, stopped, or not known while a worker is silent"
    )
    instances = s.IntegerField()
    running = s.IntegerField(help_text="instances that answer")
    unknown = s.IntegerField(help_text="instances of workers that do not answer: they may run")
    stopped = s.IntegerField(help_text="instances that were stopped")
    workers = s.ListField(child=s.CharField())
    inputs = s.ListField(child=s.CharField(), help_text="topics, or patterns of them")
    output = s.CharField(allow_null=True)
    version = s.IntegerField()
    created_at = s.IntegerField()
    received_rate = s.FloatField(allow_null=True, help_text="in the last whole minute")
    processed_rate = s.FloatField(allow_null=True)
    failures = s.IntegerField(allow_null=True, help_text="exceptions in the last whole minute")
    failures_total = s.IntegerField(
        allow_null=True, help_text="exceptions since the instances started"
    )
    latency_ms = s.FloatField(allow_null=True)


class FunctionsAnswer(s.Serializer[object]):
    at = s.IntegerField()
    enabled = s.BooleanField(help_text="false: the cluster has no worker")
    workers = s.ListField(child=s.CharField(), help_text="that have instances; none for tenants")
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = FunctionRow(many=True)


class LatencyBucket(s.Serializer[object]):
    up_to_ms = s.CharField(help_text="milliseconds, or +Inf")
    count = s.IntegerField(help_text="invocations at most as long")


class InstanceException(s.Serializer[object]):
    kind = s.CharField(help_text="user, system, source or sink")
    text = s.CharField(help_text="its traceback")
    at = s.IntegerField()


class InstanceRow(s.Serializer[object]):
    """One instance. Figures are null while it does not run."""

    instance = s.IntegerField()
    running = s.BooleanField()
    stopped = s.BooleanField(help_text="it was stopped, and stays so")
    error = s.CharField(allow_blank=True, help_text="why it does not run")
    restarts = s.IntegerField()
    worker = s.CharField(allow_blank=True)
    received = s.IntegerField(allow_null=True)
    processed = s.IntegerField(allow_null=True)
    failures = s.IntegerField(allow_null=True)
    received_rate = s.FloatField(allow_null=True)
    latency_ms = s.FloatField(allow_null=True)
    latency_buckets = LatencyBucket(many=True)
    last_at = s.IntegerField(allow_null=True)
    exceptions = InstanceException(many=True, help_text="the newest first")


class PromiseShape(s.Serializer[object]):
    promise = s.CharField()
    condition = s.CharField()


class FunctionAnswer(s.Serializer[object]):
    at = s.IntegerField()
    function = FunctionRow()
    config = s.DictField(help_text="FunctionConfig, SourceConfig or SinkConfig; secrets are masked")
    package = s.CharField(allow_blank=True)
    instances = InstanceRow(many=True)
    guarantee = PromiseShape(allow_null=True, help_text="of a built-in connector")


class InstanceLog(s.Serializer[object]):
    instance = s.IntegerField()
    text = s.CharField(allow_blank=True)


class LogAnswer(s.Serializer[object]):
    at = s.IntegerField()
    logs = InstanceLog(many=True, help_text="of instances that run")


class CodeAnswer(s.Serializer[object]):
    at = s.IntegerField()
    file_name = s.CharField(allow_blank=True, help_text="as it was uploaded; empty: not known")
    text = s.CharField(
        allow_null=True,
        allow_blank=True,
        help_text="null: no module of Python in one file, or too long to be edited",
    )


class ConnectorEndShape(s.Serializer[object]):
    settings = s.DictField(help_text="JSON Schema of the field configs; writeOnly: a secret")
    promise = s.CharField()
    condition = s.CharField()
    several = s.BooleanField(help_text="whether it may have more than one instance")


class ConnectorShape(s.Serializer[object]):
    name = s.CharField()
    description = s.CharField()
    as_source = ConnectorEndShape(allow_null=True)
    as_sink = ConnectorEndShape(allow_null=True)


class ConnectorsAnswer(s.Serializer[object]):
    connectors = ConnectorShape(many=True)


class RunFunctionBody(ChangeBody):
    """A start, stop or restart of all instances, or of one."""

    amount = "verb"
    verb = s.ChoiceField(VERBS, required=False)
    instance = s.IntegerField(required=False, min_value=0, allow_null=True)


class RunFunctionPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True)
    at = s.IntegerField()
    function = FunctionRow()
    instances = s.IntegerField(help_text="instances that it is about")
    verb = s.CharField(help_text="start, stop or restart")


class RunFunctionReceipt(s.Serializer[object]):
    at = s.IntegerField()
    verb = s.CharField(help_text="start, stop or restart")
    instance = s.IntegerField(allow_null=True)


class DeleteFunctionBody(ChangeBody):
    """A deletion, without further fields."""


class DeleteFunctionPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True)
    at = s.IntegerField()
    function = FunctionRow()
    instances = s.IntegerField()
    subscription = s.CharField(allow_null=True, help_text="of its inputs")
    deletes_subscription = s.BooleanField()


class DeleteFunctionReceipt(s.Serializer[object]):
    at = s.IntegerField()


class DeployFunctionBody(ChangeBody):
    """A config as Pulsar's tools take it, and the code if it is new."""

    amount = "config"
    config = s.DictField(required=False, help_text="FunctionConfig, SourceConfig or SinkConfig")
    code = s.CharField(required=False, trim_whitespace=False, help_text="a file in base64")
    file_name = s.CharField(required=False, help_text="of the code: .py, .whl or .zip")
    url = s.CharField(required=False, help_text="builtin://, function:// or https:// of the code")


class DeployFunctionPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True, help_text="null: no change, or too much for the console")
    at = s.IntegerField()
    before = s.DictField(allow_null=True, help_text="null: it is created")
    after = s.DictField()
    is_change = s.BooleanField()
    with_code = s.BooleanField()


class DeployFunctionReceipt(s.Serializer[object]):
    at = s.IntegerField()
    created = s.BooleanField()


class TryFunctionBody(s.Serializer[object]):
    """A function as for a deployment, and the number of messages to try it on."""

    config = s.DictField(help_text="FunctionConfig; of a stored function the fields to change")
    code = s.CharField(required=False, trim_whitespace=False, help_text="a file in base64")
    file_name = s.CharField(required=False, help_text="of the code: .py, .whl or .zip")
    url = s.CharField(required=False, help_text="function:// of the code")
    messages = s.IntegerField(default=10, min_value=1, max_value=TRIED_MESSAGES_MAX)


class TrialValue(s.Serializer[object]):
    """A value: its text, or base64 of bytes that are none; cut where it is long."""

    text = s.CharField(required=False, allow_blank=True)
    base64 = s.CharField(required=False)
    bytes = s.IntegerField(required=False, help_text="of the whole value")


class TrialPublication(s.Serializer[object]):
    topic = s.CharField()
    key = s.CharField(allow_null=True)
    value = TrialValue(allow_null=True)
    properties = s.DictField(child=s.CharField())


class TrialStateChange(s.Serializer[object]):
    key = s.CharField()
    value = TrialValue(allow_null=True, help_text="null: deleted")


class TriedMessage(s.Serializer[object]):
    """A message, and what the function did with it."""

    topic = s.CharField()
    id = s.CharField()
    key = s.CharField(allow_null=True)
    published_at = s.IntegerField()
    input = TrialValue(allow_null=True)
    output = TrialValue(allow_null=True, help_text="what it returned; null: nothing")
    publications = TrialPublication(many=True, help_text="by context.publish")
    logs = s.ListField(child=s.CharField(allow_blank=True))
    state = TrialStateChange(many=True)
    metrics = s.DictField(child=s.FloatField())
    acknowledged = s.IntegerField(help_text="calls of context.ack")
    dropped = s.IntegerField(help_text="rows beyond the bound of each list")
    error = s.CharField(allow_blank=True, help_text="the traceback of its exception")
    took_ms = s.FloatField(allow_null=True)


class FunctionTrial(s.Serializer[object]):
    at = s.IntegerField()
    messages = TriedMessage(many=True, help_text="in the order of their times")
    ended = s.CharField(allow_blank=True, help_text="why it ended before the last message")
    network = s.BooleanField(help_text="whether the function could reach the network")
    unreadable = s.IntegerField(help_text="entries that are encrypted, in chunks or damaged")
    left_out = s.IntegerField(help_text="entries that are too large for a trial")
    secrets = s.ListField(child=s.CharField(), help_text="asked for; a trial has none")
