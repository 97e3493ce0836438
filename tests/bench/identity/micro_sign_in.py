"""CPU of a sign-in, and of calls in a session beside those with a token.

``python -m tests.bench.identity.micro_sign_in [--calls 300]``. The gateway is in this process, on SQLite in a temporary
folder, with Argon2 as shipped.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any


def prepare(folder: Path) -> None:
    """Set up Django on a new database in ``folder``."""
    os.environ["MAGNETAR_DATA_DIR"] = str(folder)
    os.environ["DJANGO_SETTINGS_MODULE"] = "gateway.settings"
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from tests.support.access.callers import by_token

    call_command("migrate", verbosity=0)
    settings.IDENTITY = by_token(super_user_roles="root")
    settings.LOGGING_CONFIG = None


def measured(name: str, calls: int, call: Callable[[], Awaitable[Any]]) -> None:
    """Print the CPU of a call and its wall time, in milliseconds."""

    async def run() -> tuple[float, float]:
        await call()
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        for _ in range(calls):
            await call()
        return time.process_time() - cpu_s, time.perf_counter() - wall_s

    cpu_s, wall_s = asyncio.run(run())
    print(f"{name:<44} {cpu_s / calls * 1e3:7.2f} ms CPU {wall_s / calls * 1e3:7.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=300)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        bench(calls)


def bench(calls: int) -> None:
    from django.contrib.auth import get_user_model

    from gateway.people.models import Person
    from tests.support.access.browser import PASSWORD, Browser
    from tests.support.access.callers import bearer
    from tests.support.admin.clusters import cluster_of
    from tests.support.admin.gateway_client import Gateway, _drive, memory_link, scope_of

    user = get_user_model().objects.create_user("ann", password=PASSWORD)
    Person.objects.create(user=user, roles=[{"role": "root", "level": "full"}])
    with memory_link() as link:
        gateway = Gateway(cluster_of(link))
        browser = Browser(gateway)
        assert browser.sign_in("ann").status == 200
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        session = {"cookie": cookie}
        anonymous = {"cookie": f"csrftoken={browser.cookies['csrftoken']}"}
        form = {**anonymous, "x-csrftoken": browser.cookies["csrftoken"]}

        def call(
            method: str, path: str, headers: dict[str, str], body: Any = None
        ) -> Callable[[], Awaitable[Any]]:
            async def made() -> None:
                scope, data = scope_of(method, path, body, None, headers)
                answer = await _drive(gateway.application, scope, data)
                assert answer.status == 200, answer

            return made

        right = {"name": "ann", "password": PASSWORD}
        api, tenants = "/api/v1/session", "/admin/v2/tenants"
        measured("sign-in", calls // 10, call("POST", f"{api}/sign-in", form, right))
        measured("GET session, no caller", calls, call("GET", api, anonymous))
        measured("GET session, of a session", calls, call("GET", api, session))
        measured("GET session, by a token", calls, call("GET", api, bearer("root")))
        measured("GET tenants, in a session", calls, call("GET", tenants, session))
        measured("GET tenants, by a token", calls, call("GET", tenants, bearer("root")))
        gateway.close()


if __name__ == "__main__":
    main()
