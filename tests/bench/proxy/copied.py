"""CPU of the proxy per copied entry, beside Apache's proxy: both in front of one broker of ours, by turns.

``python -m tests.bench.proxy.copied --rounds 5``: medians, and their ratio. Only the proxies' CPU is counted. Apache's
proxy moves bytes in clear between sockets inside the kernel (``proxyZeroCopyModeEnabled``, its default), and cannot
with ``--tls``. It asserts nothing.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from engine.net.tls import ClientFiles
from tests.bench import loads
from tests.bench.contenders import Contender
from tests.bench.figures import Figures
from tests.oracle.proxy.apache_proxy import apache_proxy
from tests.support.instance import running_instance
from tests.support.net.certificates import Authority
from tests.support.proxy.process import ProxyProcess, variables_of

CPU = "CPU µs/entry"
MEMORY = "-Xms64m -Xmx512m -XX:MaxDirectMemorySize=512m"
COLLECTOR = "-XX:+UseG1GC"
WARM_UPS = 3
"""Rounds before those that count: Java compiles what runs often."""


def works(scale: float) -> dict[str, Callable[[Contender], Figures]]:
    """Return the works by name."""
    return {
        "publish 100 B": lambda c: loads.publish(c, 100, int(100_000 * scale)),
        "publish 1 KB": lambda c: loads.publish(c, 1024, int(50_000 * scale)),
        "publish + consume 100 B": lambda c: loads.publish_and_consume(c, 100, int(60_000 * scale)),
        "consume backlog 100 B": lambda c: loads.consume(c, 100, int(60_000 * scale)),
        "consume backlog 1 KB": lambda c: loads.consume(c, 1024, int(30_000 * scale)),
        "one in flight 100 B": lambda c: loads.one_in_flight(c, 100, int(1_500 * scale)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="size of each work")
    parser.add_argument("--tls", action="store_true", help="clients connect in TLS")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        authority = Authority(folder)
        files = authority.issue("proxy", "127.0.0.1")
        tls = ClientFiles(ca=authority.cert).reloaded(3600) if args.tls else None
        names = (
            {"tlsCertificateFilePath": files.cert, "tlsKeyFilePath": files.key} if args.tls else {}
        )
        variables = {
            "MAGNETAR_TLS_CERTIFICATE_FILE_PATH": files.cert,
            "MAGNETAR_TLS_KEY_FILE_PATH": files.key,
        }
        with (
            running_instance(folder / "instance") as instance,
            apache_proxy(
                folder / "apache",
                instance.url,
                instance.http,
                java=MEMORY,
                collector=COLLECTOR,
                **names,
            ) as theirs,
        ):
            given = variables_of(instance) | (variables if args.tls else {})
            proxy = ProxyProcess(folder, given)
            proxy.start()
            try:
                assert proxy.process is not None
                urls = (proxy.url_tls, theirs.url_tls) if args.tls else (proxy.url, theirs.url)
                ours = Contender("ours", urls[0], [proxy.process.pid], 0.0, tls=tls)
                apache = Contender("apache", urls[1], [theirs.pid], 0.0, tls=tls)
                for work, run in works(args.scale).items():
                    compare(work, run, (ours, apache), args.rounds)
                print(f"memory: {ours.pss_mb():.0f} MB ours, {apache.pss_mb():.0f} MB Apache's")
            finally:
                proxy.stop()
    print(f"load {os.getloadavg()[0]:.1f}")


def compare(
    work: str,
    run: Callable[[Contender], Figures],
    sides: tuple[Contender, Contender],
    rounds: int,
) -> None:
    """Run a work by turns, and print both medians and their ratio."""
    cpu: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(WARM_UPS + rounds):
        for side in sides if number % 2 else sides[::-1]:
            used = float(run(side)[CPU])
            if number >= WARM_UPS:
                cpu[side.name].append(used)
    ours, apache = median(cpu["ours"]), median(cpu["apache"])
    print(f"{work}: {ours:.2f} ours, {apache:.2f} Apache's, {ours / apache:.2f}", flush=True)


if __name__ == "__main__":
    main()
