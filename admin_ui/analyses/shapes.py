"""Shapes of analyses and runs."""

from rest_framework import serializers as s

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
    bytes = s.IntegerField()
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
    rows = RunShape(many=True)


class RunRequest(s.Serializer[object]):
    analysis = s.CharField()
    parameters = s.DictField()
