"""A run has the time at which it had Spark, from which on the durations of runs compare."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0005_schedules_and_pins")]

    operations = [
        migrations.AddField(
            model_name="jobrun",
            name="work_at",
            field=models.BigIntegerField(null=True),
        ),
    ]
