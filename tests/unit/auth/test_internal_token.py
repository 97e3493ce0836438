"""The internal token: made once per instance, private, compared whole."""

import stat
from pathlib import Path
from random import Random

import pytest

from engine.auth.internal import TOKEN_FILE, TokenError, load_token, token_matches
from engine.base.entropy import RandomEntropy


def test_the_first_process_makes_the_token_and_all_others_read_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = load_token(data, "", RandomEntropy(Random(1)))
    second = load_token(data, "", RandomEntropy(Random(2)))
    assert first == second
    assert len(first) == 64
    assert stat.S_IMODE((data / TOKEN_FILE).stat().st_mode) == 0o600
    assert [path.name for path in data.iterdir()] == [TOKEN_FILE]


def test_a_configured_token_goes_before_the_file(tmp_path: Path) -> None:
    assert load_token(tmp_path, "sixteen-or-more-x", RandomEntropy()) == "sixteen-or-more-x"
    assert not (tmp_path / TOKEN_FILE).exists()


def test_short_or_unusable_tokens_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="at least 16"):
        load_token(tmp_path, "short", RandomEntropy())
    (tmp_path / TOKEN_FILE).write_text("")
    with pytest.raises(TokenError, match="at least 16"):
        load_token(tmp_path, "", RandomEntropy())
    with pytest.raises(TokenError, match="cannot use"):
        load_token(tmp_path / TOKEN_FILE, "", RandomEntropy())


@pytest.mark.parametrize("offered", [None, "", "tok", "tokem", "tokenn", "tökén"])
def test_only_the_whole_token_matches(offered: str | None) -> None:
    assert token_matches("token", "token")
    assert not token_matches("token", offered)
