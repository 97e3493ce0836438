"""Users that instances run as: which are accepted, that each instance has its own, and what is missing to switch."""

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.functions.runtime import instance_users
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.instance_users import InstanceUsers, end_processes, give_to
from engine.functions.runtime.ports import InstanceUser
from tests.support.waiting import until_blocking

RANGE = "2000200000-2000200002"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch to other users")


def test_each_instance_has_a_user_of_the_range_to_itself() -> None:
    users = InstanceUsers.parse(RANGE)
    taken = [users.take() for _ in range(3)]
    assert [user.uid for user in taken] == [2000200000, 2000200001, 2000200002]
    assert all(user.own and user.gid == user.uid for user in taken)
    with pytest.raises(InstanceError, match="all 3 users of run_as_user are taken"):
        users.take()
    users.give(taken[1])
    assert users.take() == taken[1]
    assert not users.are_shared


def test_a_single_user_is_for_all_instances() -> None:
    users = InstanceUsers.parse("2000200000")
    assert users.take() == users.take() == InstanceUser(2000200000, 2000200000)
    assert users.are_shared


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no-such-user-here", "there is no user 'no-such-user-here'"),
        ("5-3", "a range FIRST-LAST has 1 to 65536 numbers, not 5-3"),
        ("300000-900000", "has 1 to 65536 numbers"),
        ("-5", "there is no user '-5'"),
        ("0x10", "there is no user"),
        (f"{pwd.getpwall()[-1].pw_uid}-{pwd.getpwall()[-1].pw_uid}", "of the users or groups"),
    ],
)
def test_a_setting_that_names_no_user_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InstanceError, match=reason):
        InstanceUsers.parse(text)


def test_root_and_the_worker_itself_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getegid", lambda: 12345)
    monkeypatch.setattr(os, "geteuid", lambda: 2000200001)
    with pytest.raises(InstanceError, match="user 0 is root"):
        InstanceUsers.parse("0")
    with pytest.raises(InstanceError, match="2000200001 is the worker's own"):
        InstanceUsers.parse("2000200001")
    with pytest.raises(InstanceError, match="2000200001 is the worker's own"):
        InstanceUsers.parse(RANGE)


def test_a_user_of_the_workers_group_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = pwd.getpwnam("nobody")
    monkeypatch.setattr(os, "getegid", lambda: entry.pw_gid)
    with pytest.raises(InstanceError, match="nobody has the worker's group"):
        InstanceUsers.parse("nobody")


def test_a_process_without_the_rights_names_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = InstanceUsers.parse(RANGE)
    monkeypatch.setattr(instance_users, "missing_capabilities", lambda: ["CAP_KILL", "CAP_SETUID"])
    with pytest.raises(InstanceError, match=r"lacks CAP_KILL, CAP_SETUID: run it as root, or"):
        users.check(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_capabilities_are_those_of_this_process() -> None:
    missing = instance_users.missing_capabilities()
    if os.geteuid():
        assert "CAP_SETUID" in missing
    else:
        assert set(missing) <= set(instance_users.NEEDED.values())


@as_root
def test_a_folder_that_the_user_cannot_reach_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(InstanceError, match="user 2000200000 cannot run"):
        InstanceUsers.parse(RANGE).check(closed)
    assert list(closed.iterdir()) == []


@as_root
def test_a_folder_is_given_away_without_following_links(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    home = tmp_path / "home"
    (home / "deep").mkdir(parents=True)
    (home / "deep" / "file").write_text("x")
    (home / "link").symlink_to(secret)
    give_to(home, InstanceUser(2000200000, 2000200000))
    owners = {path.lstat().st_uid for path in (home, *home.rglob("*"))}
    assert owners == {2000200000}
    assert secret.stat().st_uid == 0


@contextmanager
def sleeping(uid: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Yield a process of a user in a session of its own."""
    process = subprocess.Popen(
        ["/bin/sleep", "1000"], user=uid, group=uid, extra_groups=[], start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def python_of_all() -> str:
    """Return a Python that any user can run. Skips the test without one."""
    for path in (sys.executable, "/usr/bin/python3"):
        try:
            subprocess.run([path, "-I", "-c", ""], user=2000200000, check=True, cwd="/")
        except (OSError, subprocess.CalledProcessError):
            continue
        return path
    pytest.skip("there is no Python that other users can run")


@as_root
def test_all_processes_of_one_user_end_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", python_of_all())
    with (
        sleeping(2000200000) as first,
        sleeping(2000200000) as second,
        sleeping(2000200001) as other,
    ):
        end_processes(InstanceUser(2000200000, 2000200000))
        assert first.poll() is None, "others may have a user that is not the instance's own"
        end_processes(InstanceUser(2000200000, 2000200000, own=True))
        assert first.wait(60) == second.wait(60) == -signal.SIGKILL
        assert other.poll() is None


@as_root
def test_processes_of_a_killed_worker_end_at_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", python_of_all())
    with sleeping(2000200001) as left, sleeping(2000200005) as other:
        InstanceUsers.parse(RANGE).end_left_over()
        until_blocking(lambda: left.poll() is not None)
        assert other.poll() is None
