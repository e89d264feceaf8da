from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from mainstem.broker.access.certificate import principal_of_certificate
from mainstem.model.errors import InvalidPrincipal


def certificate(*parts):
    """Each part is one relative name: a list of (type, value), in the order of the certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [
        x509.RelativeDistinguishedName([x509.NameAttribute(kind, value) for kind, value in part])
        for part in parts
    ]
    now = datetime.datetime(2030, 1, 1)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name(attributes))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "not this one")]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )


def test_the_principal_is_the_subject_with_the_last_part_first():
    der = certificate(
        [(NameOID.COUNTRY_NAME, "DE")],
        [(NameOID.ORGANIZATION_NAME, "Example")],
        [(NameOID.ORGANIZATIONAL_UNIT_NAME, "Shop")],
        [(NameOID.COMMON_NAME, "orders")],
    )
    assert principal_of_certificate(der) == "User:CN=orders,OU=Shop,O=Example,C=DE"


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("a,b", "a\\,b"),
        ('q"+;<>\\', 'q\\"\\+\\;\\<\\>\\\\'),
        ("# #", "\\# \\#"),
        ("  x  y ", "\\ \\ x  y\\ "),
        ("  ", "\\ \\ "),
        ("Grüße 漢", "Grüße 漢"),
        ("a=b", "a\\=b"),
    ],
)
def test_what_has_a_meaning_in_a_name_is_escaped(name, spelled):
    """As Java's X500Principal.getName() prints these names."""
    der = certificate([(NameOID.COMMON_NAME, name)])
    assert principal_of_certificate(der) == f"User:CN={spelled}"


def test_a_part_of_several_attributes_is_joined_and_an_unnamed_type_is_a_number():
    der = certificate([(NameOID.COMMON_NAME, "x"), (NameOID.USER_ID, "7")])
    assert sorted(principal_of_certificate(der).removeprefix("User:").split("+")) == ["CN=x", "UID=7"]
    email = certificate([(NameOID.EMAIL_ADDRESS, "a@b")])
    assert principal_of_certificate(email) == "User:1.2.840.113549.1.9.1=#1603614062"


def test_a_broken_certificate_is_an_error_not_a_crash():
    der = certificate([(NameOID.COMMON_NAME, "x")])
    for size in range(60):
        with pytest.raises(InvalidPrincipal):
            principal_of_certificate(der[:size])
