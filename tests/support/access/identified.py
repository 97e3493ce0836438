"""A broker that knows tokens, passwords and certificates, and accepts all three on one port in TLS."""

import base64
from pathlib import Path

from tests.support.access.callers import KEY, token
from tests.support.access.issuer import Issuer
from tests.support.net.certificates import Authority
from tests.support.standalone import Standalone

USER, PASSWORD = "user", "secret"
APR1 = "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/"
"""Hash of ``PASSWORD``."""


def identified(folder: Path, authority: Authority, issuer: Issuer | None = None) -> Standalone:
    """Return a running broker whose certificate ``authority`` signed.

    Tokens are those of ``token``, and of ``issuer`` if there is one.
    """
    files = authority.issue("broker", "127.0.0.1", "localhost")
    users = base64.b64encode(f"{USER}:{APR1}\n".encode()).decode()
    return Standalone(
        folder,
        broker_service_port_tls="0",
        tls_certificate_file_path=files.cert,
        tls_key_file_path=files.key,
        tls_trust_certs_file_path=authority.cert,
        authentication_enabled="true",
        authentication_providers="token,basic,tls" + (",oidc" if issuer else ""),
        **(issuer.settings() if issuer else {}),
        token_secret_key=base64.b64encode(KEY).decode(),
        basic_auth_conf=f"data:;base64,{users}",
        broker_client_authentication_plugin="token",
        broker_client_authentication_parameters=f"token:{token('broker')}",
    )
