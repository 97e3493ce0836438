"""``python -m magnetar``: the command."""

from magnetar.command.main import main

if __name__ == "__main__":
    main()
