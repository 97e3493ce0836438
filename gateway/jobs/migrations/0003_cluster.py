"""A run names its cluster; all runs before are of the default one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0002_targets")]

    operations = [
        migrations.AddField(
            "JobRun", "cluster", models.CharField(blank=True, default="", max_length=255)
        )
    ]
