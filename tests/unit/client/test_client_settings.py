import pickle

import pytest

from mainstem.client import Address, ClientSettings, Sasl, Tls, parse_bootstrap
from mainstem.model.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("127.0.0.1:9092", [("127.0.0.1", 9092)]),
        ("broker.example", [("broker.example", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
    ],
)
def test_addresses_are_read_as_people_write_them(text, addresses):
    assert parse_bootstrap(text) == tuple(Address(*one) for one in addresses)


@pytest.mark.parametrize("text", ["", ",", "a:b", "a:0", "a:70000", "a:1:2", "http://a:1"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(InvalidRequest):
        parse_bootstrap(text)


def test_an_address_is_written_as_it_is_read():
    assert str(Address("::1", 9093)) == "[::1]:9093"
    assert parse_bootstrap(str(Address("::1", 9093))) == (Address("::1", 9093),)


def test_settings_travel_to_other_processes():
    settings = ClientSettings(parse_bootstrap("a:1"), tls=Tls(ca_file="ca.pem"), sasl=Sasl("u", "p"))
    assert pickle.loads(pickle.dumps(settings)) == settings
