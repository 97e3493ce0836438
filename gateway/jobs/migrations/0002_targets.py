"""A run names its target, which is a topic in all runs before."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_runs")]

    operations = [migrations.RenameField("JobRun", "topic", "target")]
