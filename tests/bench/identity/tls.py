"""Publishing and consuming by TLS beside clear text, at one broker with both ports.

``python -m tests.bench.identity.tls --rounds 3``: medians of CPU per entry of broker and bookie, and their ratio. It
asserts nothing. The load decrypts in its own process, whose CPU is not counted.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import median

from engine.net.tls import ClientFiles
from tests.bench import loads
from tests.bench.contenders import Contender
from tests.bench.figures import short
from tests.support.instance import running_instance
from tests.support.net.certificates import Authority
from tests.support.ports import free_ports

CPU = "CPU µs/entry"
REFRESH_S = 3600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="after one to warm up")
    parser.add_argument("--scale", type=float, default=1.0, help="size of each work")
    args = parser.parse_args()
    works = {
        "publish 100 B": lambda c: loads.publish(c, 100, int(150_000 * args.scale)),
        "publish 1 KB": lambda c: loads.publish(c, 1024, int(80_000 * args.scale)),
        "publish + consume 1 KB": lambda c: loads.publish_and_consume(
            c, 1024, int(50_000 * args.scale)
        ),
        "consume backlog 1 KB": lambda c: loads.consume(c, 1024, int(50_000 * args.scale)),
    }
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        authority = Authority(Path(folder))
        files = authority.issue("broker", "127.0.0.1", "localhost")
        (port,) = free_ports(1)
        with running_instance(
            Path(folder) / "instance",
            MAGNETAR_BROKER_SERVICE_PORT_TLS=str(port),
            MAGNETAR_TLS_CERTIFICATE_FILE_PATH=files.cert,
            MAGNETAR_TLS_KEY_FILE_PATH=files.key,
        ) as instance:
            pids = [instance.child(name)["pid"] for name in ("broker-1", "bookie-1")]
            clear = Contender("clear text", instance.url, pids, 0.0)
            secured = Contender(
                "TLS",
                f"pulsar+ssl://127.0.0.1:{port}",
                pids,
                0.0,
                tls=ClientFiles(ca=authority.cert).reloaded(REFRESH_S),
            )
            for name, work in works.items():
                cpu: dict[str, list[float]] = {clear.name: [], secured.name: []}
                for round_number in range(args.rounds + 1):
                    sides = (clear, secured) if round_number % 2 else (secured, clear)
                    for side in sides:
                        figures = work(side)
                        if round_number:  # the first round warms both up
                            cpu[side.name].append(figures[CPU])
                            print(f"round {round_number} {name} {side.name} {short(figures)}")
                plain, tls = median(cpu[clear.name]), median(cpu[secured.name])
                print(
                    f"{name}: {plain:.2f} in clear, {tls:.2f} by TLS, {tls / plain:.2f}", flush=True
                )


if __name__ == "__main__":
    main()
