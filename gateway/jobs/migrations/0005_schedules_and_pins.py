"""A run names what it repeats and what started it, and has a log; it may be pinned. Schedules start runs."""

from django.db import migrations, models

import gateway.jobs.models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0004_targets_of_kinds"),
    ]

    operations = [
        migrations.CreateModel(
            name="Schedule",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=gateway.jobs.models.new_run_id,
                        editable=False,
                        max_length=16,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("analysis", models.CharField(max_length=64)),
                ("cluster", models.CharField(blank=True, default="", max_length=255)),
                ("kind", models.CharField(max_length=16)),
                (
                    "target",
                    models.CharField(blank=True, db_index=True, default="", max_length=1024),
                ),
                ("also_reads", models.JSONField(default=list)),
                ("parameters", models.JSONField()),
                ("cron", models.CharField(blank=True, default="", max_length=200)),
                ("every_hours", models.PositiveIntegerField(null=True)),
                ("created_at", models.BigIntegerField()),
                ("created_by", models.CharField(blank=True, default="", max_length=150)),
                ("next_at", models.BigIntegerField(db_index=True, null=True)),
                ("last_at", models.BigIntegerField(null=True)),
                ("error", models.TextField(blank=True, default="")),
            ],
            options={
                "ordering": ("created_at", "id"),
            },
        ),
        migrations.AddField(
            model_name="jobrun",
            name="log",
            field=models.TextField(blank=True, default=""),
        ),
        migrations.AddField(
            model_name="jobrun",
            name="output_url",
            field=models.TextField(blank=True, default=""),
        ),
        migrations.AddField(
            model_name="jobrun",
            name="pinned",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="jobrun",
            name="rerun_of",
            field=models.CharField(blank=True, default="", max_length=16),
        ),
        migrations.AddField(
            model_name="jobrun",
            name="schedule",
            field=models.CharField(blank=True, db_index=True, default="", max_length=16),
        ),
    ]
