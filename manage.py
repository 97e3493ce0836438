"""Entry: ``python manage.py <command>``. ``standalone`` runs an instance, ``settings_reference`` writes the page of all
settings; every other command is Django's."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.base.settings import Program

PAGE = Path(__file__).resolve().parent / "docs" / "settings.md"


def programs() -> "list[Program[Any]]":
    """All that read settings; no package knows all of them."""
    from bookie.settings import PROGRAM as BOOKIE
    from engine.functions.worker.settings import PROGRAM as FUNCTIONS_WORKER
    from engine.metadata.server.settings import PROGRAM as METADATA
    from engine.proxy.settings import PROGRAM as PROXY
    from engine.settings import PROGRAM as BROKER
    from gateway.environment import PROGRAM as GATEWAY
    from gateway.sign_in import provider_program
    from gateway.standalone.settings import PROGRAM as STANDALONE
    from spark_jobs.pulsar_source.access import PROGRAM as ANALYSES

    return [
        *(STANDALONE, BROKER, BOOKIE, METADATA, PROXY, FUNCTIONS_WORKER, GATEWAY),
        *(provider_program("NAME"), ANALYSES),
    ]


def settings_reference(arguments: list[str]) -> int:
    """Write ``docs/settings.md``; with ``--check`` only say whether it is up to date."""
    from engine.base.settings import page

    text = page(programs())
    if arguments == ["--check"]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit(f"{PAGE} is out of date: run manage.py settings_reference")
        return 0
    if arguments:
        sys.exit("usage: manage.py settings_reference [--check]")
    PAGE.write_text(text, encoding="utf-8")
    return 0


def main() -> None:
    """Run the command named on the command line."""
    from engine.base import log as logs

    logs.keep_private()  # of a generated page Git keeps no more than whether it may be run
    # Before Django: neither needs any of it, and an instance should start fast.
    if sys.argv[1:2] == ["settings_reference"]:
        sys.exit(settings_reference(sys.argv[2:]))
    if sys.argv[1:2] == ["standalone"]:
        from gateway.standalone.cli import main as standalone

        try:
            sys.exit(standalone(sys.argv[2:]))
        except KeyboardInterrupt:  # before there was anything to stop
            sys.exit(130)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
