"""Shapes of analyses and runs."""

from rest_framework import serializers as s

from gateway.jobs.cron import HOURS_MAX
from gateway.jobs.models import RunState
from gateway.jobs.rights import TargetKind


class AnalysisShape(s.Serializer[object]):
    name = s.CharField()
    title = s.CharField()
    question = s.CharField(help_text="the question that it answers")
    targets = s.ListField(
        child=s.CharField(),
        help_text=(
            "topic, namespace, tenant or cluster: what it can read; a run names one by the parameter of that name,"
            " the cluster by none"
        ),
    )
    parameters = s.DictField(help_text="JSON Schema of the parameters")


class SparkShape(s.Serializer[object]):
    state = s.ChoiceField(
        choices=["missing", "installing", "installed", "failed", "elsewhere"],
        help_text="elsewhere: this instance does not run Spark itself",
    )
    done_mb = s.IntegerField(help_text="downloaded and unpacked so far")
    total_mb = s.IntegerField(help_text="about what done_mb ends with")
    message = s.CharField(help_text="why the last installation failed; else empty")
    download_mb = s.IntegerField()
    disk_mb = s.IntegerField(help_text="disk when it is installed")
    peak_mb = s.IntegerField(help_text="free disk that the installation needs")
    problems = s.ListField(
        child=s.CharField(),
        help_text="what analyses or the installation lack on this machine, with remedies",
    )
    command = s.CharField(help_text="a command that installs it, for a shell of the machine")


class ProgressShape(s.Serializer[object]):
    done = s.IntegerField()
    total = s.IntegerField(help_text="0 while it is not known")


class DownloadShape(s.Serializer[object]):
    name = s.CharField()
    bytes = s.IntegerField(allow_null=True, help_text="null for one that is made when it is read")
    href = s.CharField()


class AlsoReadsShape(s.Serializer[object]):
    cluster = s.CharField()
    topic = s.CharField()


class RunShape(s.Serializer[object]):
    id = s.CharField()
    analysis = s.CharField()
    title = s.CharField()
    cluster = s.CharField()
    kind = s.ChoiceField(choices=list(TargetKind), help_text="kind of the target")
    target = s.CharField(
        help_text="full name of the topic, namespace or tenant; empty for the cluster"
    )
    also_reads = AlsoReadsShape(
        many=True, help_text="further topics that it reads; seeing it needs the right to each"
    )
    parameters = s.DictField()
    state = s.ChoiceField(choices=RunState.values)
    stage = s.CharField(help_text="its current step, or its last one when the run has stopped")
    cancelling = s.BooleanField(help_text="a cancellation is requested and the run is not over yet")
    progress = ProgressShape()
    attempt = s.IntegerField()
    owner = s.CharField(help_text="the role that launched it; empty for none")
    rerun_of = s.CharField(allow_null=True, help_text="id of the run that it repeats")
    schedule = s.CharField(allow_null=True, help_text="id of the schedule that started it")
    pinned = s.BooleanField()
    output_url = s.CharField(allow_null=True, help_text="folder with a copy of its files")
    created_at = s.IntegerField()
    started_at = s.IntegerField(allow_null=True)
    finished_at = s.IntegerField(allow_null=True)
    error = s.CharField(allow_null=True)
    result = s.DictField(
        allow_null=True, help_text="docs/formats/analysis-result.md; null in lists"
    )
    partial = s.DictField(  # type: ignore[assignment]
        allow_null=True,
        help_text="what the run has found so far, in the format of a result; kept when it does not succeed",
    )
    downloads = DownloadShape(many=True)


class RunPage(s.Serializer[object]):
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = RunShape(many=True)


class RunRequest(s.Serializer[object]):
    analysis = s.CharField()
    parameters = s.DictField()
    rerun_of = s.CharField(
        required=False, help_text="id of a run of the same analysis that it repeats, changed or not"
    )


class EstimateRequest(s.Serializer[object]):
    parameters = s.DictField()


class EstimateShape(s.Serializer[object]):
    topics = s.IntegerField(help_text="plain topics and partitions")
    entries = s.IntegerField(allow_null=True, help_text="entries that the run reads")
    bytes = s.IntegerField(allow_null=True, help_text="their stored bytes")
    exact = s.BooleanField(help_text="false: there is more, which is not known")
    messages = s.IntegerField(
        allow_null=True, help_text="by the target's last run; null without one"
    )
    seconds = s.FloatField(
        allow_null=True,
        help_text="by the rates of earlier runs, while Spark runs; null without one",
    )


class FigureShape(s.Serializer[object]):
    key = s.CharField()
    label = s.CharField()  # type: ignore[assignment]
    unit = s.CharField()
    values = s.ListField(child=s.JSONField(), help_text="of the first and of the second run")
    difference = s.FloatField(allow_null=True, help_text="second less first; null for no numbers")
    ratio = s.FloatField(allow_null=True, help_text="second in terms of the first")


class ComparedParameter(s.Serializer[object]):
    name = s.CharField()
    values = s.ListField(child=s.JSONField())


class ComparisonShape(s.Serializer[object]):
    runs = RunShape(many=True, help_text="the two runs, with their results")
    parameters = ComparedParameter(many=True)
    figures = FigureShape(many=True)


class LogLine(s.Serializer[object]):
    at = s.IntegerField()
    attempt = s.IntegerField()
    text = s.CharField()


class RunLog(s.Serializer[object]):
    lines = LogLine(many=True)
    spark_url = s.CharField(allow_null=True, help_text="Spark's own pages; null where it has none")


class ScheduleRequest(s.Serializer[object]):
    analysis = s.CharField()
    parameters = s.DictField()
    cron = s.CharField(
        default="",
        allow_blank=True,
        max_length=200,
        help_text="minute, hour, day, month and day of the week in UTC; or every_hours",
    )
    every_hours = s.IntegerField(
        default=None, allow_null=True, min_value=1, max_value=HOURS_MAX, help_text="or cron"
    )


class ScheduleShape(s.Serializer[object]):
    id = s.CharField()
    analysis = s.CharField()
    title = s.CharField()
    cluster = s.CharField()
    kind = s.ChoiceField(choices=list(TargetKind), help_text="kind of the target")
    target = s.CharField()
    also_reads = AlsoReadsShape(many=True)
    parameters = s.DictField()
    cron = s.CharField()
    every_hours = s.IntegerField(allow_null=True)
    owner = s.CharField(help_text="whose right counts at each start; empty for no role")
    created_at = s.IntegerField()
    next_at = s.IntegerField(allow_null=True)
    last_at = s.IntegerField(allow_null=True)
    last_run = s.CharField(allow_null=True, help_text="id of the newest run")
    last_state = s.CharField(allow_null=True, help_text="state of the newest run")
    error = s.CharField(allow_null=True, help_text="why the last time has no run")


class Schedules(s.Serializer[object]):
    rows = ScheduleShape(many=True)
