"""A run stores what kind of target it reads, what else it reads, and what it found so far."""

from typing import Any

from django.db import migrations, models


def kinds_of_earlier_runs(apps: Any, schema_editor: Any) -> None:
    # The only analysis before reads topics; runs of others stay those of the cluster, which superusers see.
    runs = apps.get_model("jobs", "JobRun").objects
    runs.filter(analysis="topic-profile").update(kind="topic")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0003_cluster")]

    operations = [
        migrations.AddField("JobRun", "kind", models.CharField(default="cluster", max_length=16)),
        migrations.AddField("JobRun", "also_reads", models.JSONField(default=list)),
        migrations.AddField("JobRun", "partial", models.JSONField(null=True)),
        migrations.RunPython(kinds_of_earlier_runs, migrations.RunPython.noop),
    ]
