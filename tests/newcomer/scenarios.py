"""Machines of newcomers, with their obstacles, and how each start has to end there."""

from dataclasses import dataclass

CLONE = "/home/user/my clone"
UNTIL_READY = """
until grep -q "ready in" /tmp/run 2>/dev/null; do
  kill -0 $run 2>/dev/null || { cat /tmp/run; exit 9; }
  sleep 0.1
done
"""
RUN = "make run > /tmp/run 2>&1 & run=$!\n" + UNTIL_READY
# minbase has neither ps nor pkill.
TOOLS = r"""
pids() {
  for p in /proc/[0-9]*; do
    [ "$(stat -c %u $p 2>/dev/null)" = 4000 ] || continue
    tr '\0' ' ' 2>/dev/null < $p/cmdline | grep -q -- "$1" && basename $p
  done
  true
}
get() {
  .venv/bin/python -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).status, sys.argv[1])' "$1"
}
stop() {
  kill -INT $(pids "standalone run")
  wait $run; code=$?
  cat /tmp/run
  for i in $(seq 100); do left=$(pids "python"); [ -z "$left" ] && break; sleep 0.1; done
  [ -z "$left" ] || { echo "LEFT BEHIND: $left"; exit 8; }
}
"""
FOREIGN = f"""
chown -R root "$R{CLONE}"
chmod -R a+rX "$R{CLONE}" $R/home/user
"""
NO_VENV = """
names=$(chroot $R dpkg-query -W -f '${Package} ' 'python3*-venv')
chroot $R dpkg --purge --force-all $names >/dev/null
"""
REDIS = """
chroot $R apt-get -qq update >/dev/null
chroot $R apt-get -qq install -y --no-install-recommends redis-server >/dev/null 2>&1
"""
SMALL = "mkdir -p $R/mnt/small; mount -t tmpfs -o size={}m,mode=1777 tmpfs $R/mnt/small"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A start on a machine. ``expects`` are texts of its output, ``refuses`` is true when it must end with an error."""

    name: str
    script: str
    expects: tuple[str, ...]
    refuses: bool = False
    network: bool = False
    """True: packages are downloaded; ``base`` says from where it starts."""
    installed: bool = True
    as_root: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 300
    only_with: str = ""
    """Option of the command line without which it does not run, since it takes minutes."""

    @property
    def steps(self) -> str:
        """The script, in the clone with a strict umask."""
        return f"umask 077\ncd '{CLONE}'\n{TOOLS}\n{self.script}"


INSTALL = Scenario(
    "set-up without HOME, umask 077, locale C, path with a blank",
    """make setup || exit 7
make console-archive
new=$(ls -A /home/user | grep -v "^my clone$" | grep -v "^\\.\\(bash\\|profile\\)")
[ -z "$new" ] || { echo "OUTSIDE OF THE FOLDER: $new"; exit 8; }
du -sm .venv .tools frontend/dist; ls .tools
""",
    ("MB to download", "building the console", "the console is packed"),
    network=True,
    installed=False,
    timeout_s=1200,
)

SCENARIOS = (
    Scenario(
        "set-up killed in the middle, then again",
        """make setup > /tmp/first 2>&1 & first=$!
until grep -q "installing Python packages" /tmp/first; do sleep 0.05; done; sleep 1
kill -9 $(pids bootstrap.py | head -1); wait $first
sleep 1; left=$(pids "uv\\|pip\\|bootstrap"); [ -z "$left" ] || { echo "LEFT BEHIND: $left"; exit 8; }
make setup
""",
        ("installing Python packages", "the console is that of"),
        network=True,
        installed=False,
    ),
    Scenario(
        "two set-ups at once",
        """make setup > /tmp/first 2>&1 & first=$!
until grep -q "installing" /tmp/first; do sleep 0.05; done
make setup || exit 6
wait $first
""",
        ("another setup works in this folder: waiting for it",),
        network=True,
        installed=False,
    ),
    Scenario(
        "set-up on a disk with 100 MB",
        """mkdir /mnt/small/clone; cp -r Makefile bootstrap.py *.lock frontend pyproject.toml /mnt/small/clone
cd /mnt/small/clone && make setup""",
        ("MB free; the packages and an instance's data need",),
        refuses=True,
        installed=False,
        as_root=SMALL.format(100),
    ),
    Scenario(
        "set-up in a folder of another user",
        "make setup",
        ("no permission to write into", "clone into a folder of yours"),
        refuses=True,
        installed=False,
        as_root=FOREIGN,
    ),
    Scenario(
        "set-up without python3-venv",
        "make setup",
        ("sudo apt install python3-venv",),
        refuses=True,
        installed=False,
        as_root=NO_VENV,
    ),
    Scenario(
        "set-up without network",
        "make setup",
        ("failed (exit ",),
        refuses=True,
        installed=False,
    ),
    Scenario(
        "first start, no Redis, no Java",
        f"""{RUN}
for path in /admin/v2/tenants / /metrics; do get http://127.0.0.1:8080$path || exit 5; done
.venv/bin/python manage.py standalone status
stop""",
        ("ready in", "analyses cannot run yet", "sudo apt install redis-server", "200 http"),
    ),
    Scenario(
        "data folder with other letters than ASCII, locale C",
        f"export MAGNETAR_DATA_DIR=/home/user/dätä\n{RUN}\nget http://127.0.0.1:8080/admin/v2/tenants; stop",
        ("ready in", "200 http"),
    ),
    Scenario(
        "localhost is ::1 alone",
        f"{RUN}\nget http://localhost:8080/admin/v2/tenants; stop",
        ("ready in", "200 http://localhost"),
        as_root="echo '::1 localhost' > $R/etc/hosts",
    ),
    Scenario(
        "/dev/shm not writable",
        f"{RUN}\nget http://127.0.0.1:8080/admin/v2/tenants; stop",
        ("ready in", "/dev/shm cannot be written", "200 http"),
        as_root="chmod 755 $R/dev/shm",
    ),
    Scenario(
        "a port is taken",
        """.venv/bin/python -c 'import socket,time; s=socket.create_server(("127.0.0.1",8080)); time.sleep(60)' &
sleep 1; make run""",
        ("port 8080 (gateway, http) cannot be used", "MAGNETAR_PORT_OFFSET"),
        refuses=True,
    ),
    Scenario(
        "20 MB for data",
        "MAGNETAR_DATA_DIR=/mnt/small make run",
        ("/mnt/small has ", "MiB free; 1 new bookie needs 300"),
        refuses=True,
        as_root=SMALL.format(20),
    ),
    Scenario(
        "data folder not writable",
        "MAGNETAR_DATA_DIR=/mnt make run",
        ("cannot ", "/mnt", "MAGNETAR_DATA_DIR=/some/folder"),
        refuses=True,
    ),
    Scenario(
        "a second instance on the same data",
        f"{RUN}\nmake run; second=$?; stop; exit $second",
        ("an instance already runs on",),
        refuses=True,
    ),
    Scenario(
        "a broker without its metadata server, for 12 s",
        """timeout 12 .venv/bin/magnetar broker > /tmp/broker 2>&1; head -20 /tmp/broker
lines=$(grep -c "Connection dropped" /tmp/broker); echo "$lines lines about the connection"
[ "$lines" -le 4 ]""",
        ("lines about the connection",),
    ),
    Scenario(
        "Spark installed on request, and an analysis without restart",
        f"""{RUN}
.venv/bin/python -m tests.newcomer.analyse || {{ tail -n 5 data/logs/spark*.log data/logs/worker.log; stop; exit 5; }}
stop""",
        ("Spark is installed: analyses can run", "run succeeded"),
        network=True,
        as_root=REDIS,
        variables=(("MAGNETAR_PORT_OFFSET", "26000"),),
        timeout_s=900,
        only_with="spark",
    ),
)
