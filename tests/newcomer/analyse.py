"""A user of the running instance who has Spark installed by REST, then starts an analysis of the demo's topic."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Any

BASE = f"http://127.0.0.1:{8080 + int(os.environ.get('MAGNETAR_PORT_OFFSET', '0'))}/api/v1"
TOPIC = "persistent://public/demo/orders"


def call(method: str, path: str, body: object = None) -> Any:
    """Return the answer to a call; print a refusal and exit."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, data, method=method)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        print(method, path, error.code, error.read().decode())
        sys.exit(1)


def main() -> None:
    """Print each step and exit with 1 when the run does not succeed."""
    if subprocess.run([sys.executable, "manage.py", "standalone", "demo"], check=False).returncode:
        sys.exit("the demo failed")
    offer = call("GET", "/spark")
    print("offer:", offer["state"], offer["problems"], f"{offer['download_mb']} MB")
    began = time.monotonic()
    call("POST", "/spark", {})
    while (state := call("GET", "/spark"))["state"] == "installing":
        time.sleep(1)
    print(f"Spark {state['state']} after {time.monotonic() - began:.0f} s {state['message']}")
    run = call("POST", "/runs", {"analysis": "topic-profile", "parameters": {"topic": TOPIC}})
    began = time.monotonic()
    while run["state"] in ("queued", "running"):
        time.sleep(1)
        run = call("GET", f"/runs/{run['id']}")
    print(f"run {run['state']} after {time.monotonic() - began:.0f} s {run['error'] or ''}")
    sys.exit(run["state"] != "succeeded")


if __name__ == "__main__":
    main()
