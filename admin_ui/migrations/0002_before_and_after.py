from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("admin_ui", "0001_initial")]

    operations = [
        migrations.AlterField(
            model_name="auditentry",
            name="target",
            field=models.CharField(help_text="path and query as they were sent", max_length=4096),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="request_id",
            field=models.CharField(
                default="",
                help_text="the caller's X-Request-Id or one of ours; answered",
                max_length=64,
            ),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="given",
            field=models.TextField(
                default="", help_text="the JSON body, without secrets; long ones cut"
            ),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="changes",
            field=models.TextField(
                default="", help_text="JSON list of what was changed, each with before and after"
            ),
        ),
    ]
