"""Options of the sink: all are checked on the driver, and none holds a secret."""

import pytest

from spark_jobs.pulsar_sink.options import Guarantee, SinkOptions, parse
from spark_jobs.pulsar_source.options import OptionError

URL = {"serviceUrl": "pulsar://127.0.0.1:6650"}


def test_defaults() -> None:
    assert parse(URL) == SinkOptions(("pulsar://127.0.0.1:6650",))
    assert not parse(URL).encrypted


def test_all_options_in_any_case() -> None:
    options = parse(
        {
            "SERVICE.URL": "pulsar+ssl://a:1,b:2",
            "Topic": "orders",
            "deliveryguarantee": "exactly-once",
            "PRODUCERNAME": "etl",
            "writeid": "day-1",
            "orderBy": "a, b",
            "batchingEnabled": "false",
            "batchingMaxMessages": "10",
            "batchingMaxBytes": "100",
            "compression": "LZ4",
            "chunkingEnabled": "true",
            "sendTimeout": "5",
            "authentication.file": "/t",
            "tls.trustCertsFile": "/ca",
            "tls.certificateFile": "/c",
            "tls.keyFile": "/k",
            "tls.hostnameVerification": "false",
        }
    )
    assert options == SinkOptions(
        brokers=("pulsar+ssl://a:1", "pulsar+ssl://b:2"),
        topic="persistent://public/default/orders",
        guarantee=Guarantee.EXACTLY_ONCE,
        producer_name="etl",
        write_id="day-1",
        order_by=("a", "b"),
        batching=False,
        batch_messages=10,
        batch_bytes=100,
        codec=1,
        chunking=True,
        send_timeout_s=5,
        method="token",
        credentials_file="/t",
        trust_file="/ca",
        certificate_file="/c",
        key_file="/k",
        verify_hostname=False,
    )
    assert options.encrypted


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"serviceUrl": ""}, "option serviceUrl must be"),
        ({"serviceUrl": "http://a:1"}, "option serviceUrl must be"),
        ({"serviceUrl": "pulsar://a:1,b"}, "option serviceUrl must be"),
        ({"topic": "a/b"}, "option topic"),
        ({"deliveryGuarantee": "maybe"}, "option deliveryGuarantee must be exactly-once or"),
        ({"producerName": "a b"}, "option producerName must be"),
        ({"compression": "brotli"}, "option compression must be one of none, lz4"),
        ({"sendTimeout": "0"}, "option sendTimeout must be a whole number from 1 to 86400"),
        ({"batchingEnabled": "yes"}, "option batchingEnabled must be true or false"),
        (
            {"authentication.method": "kerberos", "authentication.file": "/f"},
            "authentication.method",
        ),
        ({"authentication.method": "basic"}, "option authentication.file must name"),
        ({"authentication.method": "tls"}, "tls.certificateFile and tls.keyFile must be set"),
        ({"tls.keyFile": "/k"}, "tls.certificateFile and tls.keyFile must be set together"),
    ],
)
def test_an_error_names_the_option(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        parse(URL | options)


@pytest.mark.parametrize("name", ["pulsar.client.authParams", "authentication.token", "password"])
def test_an_option_that_holds_a_secret_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(OptionError, match=r"option authentication\.file") as caught:
        parse(URL | {name: "s3cret"})
    assert "s3cret" not in str(caught.value)
