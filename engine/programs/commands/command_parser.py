"""Arguments of the commands that prepare a cluster's metadata, by the names that Apache Pulsar's commands have."""

import argparse
from collections.abc import Sequence

from engine.base.settings import ProgramParser, SettingsError
from engine.metadata.apart.stores import StoreUrls
from engine.metadata.connect import ETCD, NOT_BUILT, ZOOKEEPER

_SCHEMES = frozenset({ZOOKEEPER, ETCD, *NOT_BUILT})
COUNT_MAX = 1 << 20


class CommandParser(ProgramParser):
    """Parser whose options must be given in full; an error names the argument and ends the process with status 2."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(prog=f"magnetar {name}", description=text, allow_abbrev=False)

    def text(
        self, *names: str, help: str | None = None, required: bool = False, default: str = ""
    ) -> None:
        """Declare an option with a text. Without ``help`` it is an old name, which the help leaves out."""
        shown = argparse.SUPPRESS if help is None else help
        self.add_argument(*names, help=shown, required=required, default=default)

    def number(self, *names: str, help: str, default: int, low: int = 1) -> None:
        """Declare an option with a whole number from ``low`` on."""

        def parsed(text: str) -> int:
            if not text.isascii() or not text.isdigit() or not low <= int(text) <= COUNT_MAX:
                raise argparse.ArgumentTypeError(
                    f"must be a whole number from {low} to {COUNT_MAX}, not {text!r}"
                )
            return int(text)

        self.add_argument(*names, type=parsed, default=default, help=f"{help} ({default})")

    def flag(self, *names: str, help: str) -> None:
        """Declare an option that may be given alone, or with true or false."""

        def parsed(text: str) -> bool:
            if text.lower() not in ("true", "false"):
                raise argparse.ArgumentTypeError(f"must be true or false, not {text!r}")
            return text.lower() == "true"

        self.add_argument(*names, type=parsed, nargs="?", const=True, help=help)

    def session_timeout(self) -> None:
        self.number(
            "--zookeeper-session-timeout-ms",
            help="session timeout of the metadata stores",
            default=30_000,
            low=1000,
        )

    def config_paths(self, *names: tuple[str, str]) -> None:
        """Declare options of Apache's for files of etcd's access, which are refused by their names."""
        for short, long in names:
            self.text(short, long)

    def refuse_config_paths(self, given: argparse.Namespace, *names: str) -> None:
        """End the process if one of these options was given: no such file is read."""
        for name in names:
            if getattr(given, name.removeprefix("--").replace("-", "_")):
                self.error(
                    f"argument {name}: files of access are not read: set MAGNETAR_METADATA_USER and "
                    "MAGNETAR_METADATA_TLS_…"
                )

    def one_of(self, given: argparse.Namespace, names: Sequence[str], *, required: bool) -> str:
        """Return the value of the one option of ``names`` that was given; the first is the present name.

        End the process when several were given, or none although one is required.
        """
        values = {name: getattr(given, name.removeprefix("--").replace("-", "_")) for name in names}
        present = [name for name, value in values.items() if value]
        if len(present) > 1:
            self.error(f"argument {present[0]}: not allowed with argument {present[1]}")
        if not present:
            if required:
                self.error(f"the following arguments are required: {names[0]}")
            return ""
        return str(values[present[0]])

    def stores(
        self, metadata: tuple[str, str], configuration: tuple[str, str], bookkeeper: tuple[str, str]
    ) -> StoreUrls:
        """Return the checked stores of pairs of an option's name and its value. End the process for an invalid one."""
        names, values = zip(metadata, configuration, bookkeeper, strict=True)
        try:
            return StoreUrls.parse(
                with_scheme(values[0]),
                with_scheme(values[1]),
                values[2],
                settings=(
                    f"argument {names[0]}:",
                    f"argument {names[1]}:",
                    f"argument {names[2]}:",
                ),
            )
        except SettingsError as error:
            self.error(str(error))


def with_scheme(url: str) -> str:
    """Return a metadata URL for a connection string, which is ZooKeeper's when it has no scheme."""
    if not url or url.partition(":")[0] in _SCHEMES:
        return url
    return f"{ZOOKEEPER}:{url}"
