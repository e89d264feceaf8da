"""How to reach the broker, as options of the source and the sink: the way back of `spark/connecting.py`."""

from __future__ import annotations

from mainstem.client.settings import ClientSettings, Tls
from mainstem.model.errors import InvalidRequest


def source_options(settings: ClientSettings) -> dict[str, str]:
    """`kafka.*` options for `format("mainstem")`. Certificates are read where Spark's tasks run."""
    protocol = ("SASL_" if settings.sasl else "") + ("SSL" if settings.tls else "PLAINTEXT")
    options = {
        "kafka.bootstrap.servers": ",".join(map(str, settings.bootstrap)),
        "kafka.security.protocol": protocol,
    }
    if settings.sasl:
        options["kafka.sasl.mechanism"] = settings.sasl.mechanism
        options["kafka.sasl.username"] = settings.sasl.user
        options["kafka.sasl.password"] = settings.sasl.password
    return options | (_tls_options(settings.tls) if settings.tls else {})


def _tls_options(tls: Tls) -> dict[str, str]:
    if not tls.verify:
        raise InvalidRequest("Spark's tasks always check the broker's certificate: give its authority")
    files = {
        "kafka.ssl.ca.location": tls.ca_file,
        "kafka.ssl.certificate.location": tls.cert_file,
        "kafka.ssl.key.location": tls.key_file,
    }
    return {name: file for name, file in files.items() if file}
