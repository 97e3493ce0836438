"""Arguments with Apache's names: ranges, exclusions and refusals that name the argument."""

import pytest

from engine.programs.commands.command_parser import CommandParser, with_scheme


def parser() -> CommandParser:
    made = CommandParser("command", "text")
    made.number("--number", help="a number", default=4)
    made.flag("--flag", help="a flag")
    made.text("--store", help="a store")
    made.text("--old-store")
    return made


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("--number", "0"), "argument --number: must be a whole number from 1 to 1048576, not '0'"),
        (("--number", "x"), "argument --number: must be a whole number"),
        (("--flag", "maybe"), "argument --flag: must be true or false, not 'maybe'"),
        (("--num", "1"), "unrecognized arguments: --num 1"),
    ],
)
def test_an_invalid_argument_is_named(
    arguments: tuple[str, ...], refusal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(arguments)
    assert ended.value.code == 2
    assert refusal in capsys.readouterr().err


def test_one_of_an_options_names_may_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    made, names = parser(), ("--store", "--old-store")
    assert made.one_of(made.parse_args(["--old-store", "a"]), names, required=True) == "a"
    assert made.one_of(made.parse_args([]), names, required=False) == ""
    for arguments in (["--store", "a", "--old-store", "b"], []):
        with pytest.raises(SystemExit):
            made.one_of(made.parse_args(arguments), names, required=True)
    assert "argument --store: not allowed with argument --old-store" in capsys.readouterr().err


def test_a_connection_string_without_a_scheme_is_zookeepers() -> None:
    assert with_scheme("host:2181") == "zk:host:2181"
    assert with_scheme("etcd:http://host:2379") == "etcd:http://host:2379"
    assert with_scheme("") == ""
