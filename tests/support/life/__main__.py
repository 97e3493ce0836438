"""The scripted life by hand: ``python -m tests.support.life --port-offset 21500 --data-dir DIR``, until Ctrl-C."""

import argparse
import signal
import tempfile
import time
from pathlib import Path

from tests.support.life.life import living_instance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--port-offset", type=int, help="see MAGNETAR_PORT_OFFSET; free ports by default"
    )
    parser.add_argument("--data-dir", type=Path, help="empty or absent; a temporary one by default")
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # a background job of a shell ignores Ctrl-C
        signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="life-") as made:
        data_dir = args.data_dir or Path(made)
        try:
            with living_instance(data_dir, port_offset=args.port_offset) as life:
                took = time.monotonic() - began
                print(f"{life.instance.http} and {life.instance.url} live after {took:.1f} s")
                print(f"data in {data_dir}; a line on standard output each minute; Ctrl-C ends it")
                while True:
                    time.sleep(60)
                    counts = life.truth()
                    print(
                        sum(topic_counts.confirmed for topic_counts in counts.values()),
                        "messages published",
                    )
        except KeyboardInterrupt:
            print("ended")


if __name__ == "__main__":
    main()
