"""The official client for user code that asks for it."""

from typing import Any

from engine.functions.instance.instance_plan import InstancePlan


class OfficialClient:
    """The client of ``pulsar-client``, made when first asked for, connected as the function is."""

    def __init__(self, plan: InstancePlan) -> None:
        self._plan = plan
        self._client: Any = None

    def get(self) -> Any:
        """Return the client. From the user's thread."""
        if self._client is None:
            # Slow to import: most functions never ask.
            import pulsar

            plan = self._plan
            settings: dict[str, Any] = {}
            if plan.token_file:
                settings["authentication"] = pulsar.AuthenticationToken(
                    lambda: _text(plan.token_file)
                )
            if plan.trust_certs_file:
                settings["tls_trust_certs_file_path"] = plan.trust_certs_file
            settings["tls_validate_hostname"] = plan.verify_hostname
            self._client = pulsar.Client(plan.service_url, **settings)
        return self._client

    def close(self) -> None:
        """Close the client where there is one."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _text(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()
