"""Checks that a child serves, by the protocol of its kind."""

import asyncio

from gateway.standalone.plan import WORKER_KEY, Ready


async def is_ready(ready: Ready, host: str, pid: int = 0) -> bool:
    """Return whether the process ``pid`` is ready; takes two seconds at most."""
    if ready.kind == "alive":
        return True
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(host, ready.port)
            try:
                if ready.kind == "tcp":
                    return True
                if ready.password_file is not None:
                    writer.write(f"AUTH {ready.password_file.read_text()}\r\n".encode())
                    if await reader.readline() != b"+OK\r\n":
                        return False
                if ready.kind == "redis":
                    writer.write(b"PING\r\n")
                    return await reader.readline() == b"+PONG\r\n"
                if ready.kind == "worker":
                    writer.write(f"GET {WORKER_KEY}\r\n".encode())
                    await reader.readline()  # The length of the value.
                    return await reader.readline() == f"{pid}\r\n".encode()
                if ready.kind == "zookeeper":
                    writer.write(b"srvr")  # ``ruok`` is answered before the database is loaded.
                    return (await reader.readline()).startswith(b"Zookeeper version")
                writer.write(
                    f"GET {ready.path} HTTP/1.0\r\nHost: {host}:{ready.port}\r\n\r\n".encode()
                )
                head = await reader.readline()
                return head.split()[1:2] == [b"200"]
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
