"""Entry: ``python manage.py <command>``. ``standalone`` runs an instance; every other command is Django's."""

import os
import sys


def main() -> None:
    """Run the command named on the command line."""
    if sys.argv[1:2] == ["standalone"]:
        # Before Django: the supervisor needs none of it, and an instance should start fast.
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
