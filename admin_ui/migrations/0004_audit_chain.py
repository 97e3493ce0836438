import hashlib
import json
from typing import Any

from django.db import migrations, models


def begin_chain(apps: Any, editor: Any) -> None:
    """Begin the chain behind the entries that exist, which have no links.

    The first link is that of a removal (``admin_ui.audit.chain.removal_link``), as this version of it writes it.
    """
    last = apps.get_model("admin_ui", "AuditEntry").objects.order_by("-id").first()
    if last is None:
        return
    text = json.dumps(["", 2, last.pk, 0, ""], separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    link = apps.get_model("admin_ui", "AuditLink")(seq=1, kind=2, entry_id=last.pk, digest=digest)
    link.save(force_insert=True)
    head = apps.get_model("admin_ui", "AuditHead")(id=1, seq=1, digest=digest, removed_id=last.pk)
    head.save(force_insert=True)


class Migration(migrations.Migration):
    dependencies = [("admin_ui", "0003_subjects")]

    operations = [
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                ("id", models.PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ("seq", models.BigIntegerField(default=0)),
                ("digest", models.CharField(default="", max_length=64)),
                ("base_seq", models.BigIntegerField(default=0)),
                ("base_digest", models.CharField(default="", max_length=64)),
                ("removed_id", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="AuditLink",
            fields=[
                ("seq", models.BigIntegerField(primary_key=True, serialize=False)),
                ("kind", models.PositiveSmallIntegerField()),
                ("entry_id", models.BigIntegerField()),
                ("digest", models.CharField(max_length=64)),
            ],
        ),
        migrations.RunPython(begin_chain, migrations.RunPython.noop),
    ]
