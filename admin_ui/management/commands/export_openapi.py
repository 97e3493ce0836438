"""``manage.py export_openapi``: write the console API's OpenAPI document, from which the front end's types are made."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    """Write ``frontend/openapi.json``; with ``--check`` only fail when it is out of date."""

    help = "Write the console API's OpenAPI document to frontend/openapi.json"
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="fail when the file differs")
        parser.add_argument(
            "--output", type=Path, default=settings.BASE_DIR / "frontend" / "openapi.json"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        from admin_ui.openapi import document_text

        path: Path = options["output"]
        text = document_text()
        if options["check"]:
            if not path.exists() or path.read_text() != text:
                raise CommandError(f"{path} is out of date: run manage.py export_openapi")
            return
        path.write_text(text)
        self.stdout.write(f"wrote {path}")
