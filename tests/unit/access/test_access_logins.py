from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from mainstem.broker.access.book import AccessBook, CredentialSet
from mainstem.broker.access.sasl import PlainExchange, ScramExchange
from mainstem.broker.access.scram import Mechanism, credential, decoy, parse_client_first, salt_password
from mainstem.model.errors import AuthenticationFailed

SECRET = b"a secret of the broker"


def book_with(user="alice", password="a password", salt=b"0123456789abcdef", iterations=4096):
    book = AccessBook()
    book.decoy_secret = SECRET
    for mechanism in Mechanism:
        made = credential(mechanism, salt, iterations, salt_password(mechanism, password, salt, iterations))
        book.apply(CredentialSet(user, mechanism, salt, iterations, made.stored_key, made.server_key))
    return book


def client_final(mechanism, password, first_bare, server_first, header="n,,", before_nonce=""):
    """What a client answers, computed by the RFC's formulas."""
    name = mechanism.hash_name
    fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
    salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c={base64.b64encode(header.encode()).decode()},r={before_nonce}{fields['r']}"
    message = f"{first_bare},{server_first.decode()},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), message, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_signature = hmac.digest(hmac.digest(salted, b"Server Key", name), message, name)
    final = f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    return final, b"v=" + base64.b64encode(server_signature)


def test_scram_gives_the_signature_of_the_rfc_for_its_example():
    """The exchange printed in RFC 7677, section 3."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    exchange = ScramExchange(book_with("user", "pencil", salt), Mechanism.SCRAM_SHA_256, nonce)
    asked = exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert (
        asked.token
        == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert asked.user is None
    done = exchange.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert done.token == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert done.user == "user"


@pytest.mark.parametrize("mechanism", list(Mechanism))
@pytest.mark.parametrize(("password", "right"), [("a password", True), ("b password", False)])
def test_scram_lets_in_who_knows_the_password_only(mechanism, password, right):
    exchange = ScramExchange(book_with(), mechanism, "server")
    asked = exchange.step(b"n,,n=alice,r=client")
    final, expected = client_final(mechanism, password, "n=alice,r=client", asked.token)
    if right:
        done = exchange.step(final)
        assert (done.token, done.user) == (expected, "alice")
    else:
        with pytest.raises(AuthenticationFailed, match="invalid credentials"):
            exchange.step(final)


@pytest.mark.parametrize(("before", "taken"), [("client", True), ("xclient", False), ("cli", False)])
def test_scram_takes_the_doubled_nonce_of_old_librdkafka_and_no_other(before, taken):
    exchange = ScramExchange(book_with(), Mechanism.SCRAM_SHA_256, "server")
    asked = exchange.step(b"n,,n=alice,r=client")
    final, expected = client_final(
        Mechanism.SCRAM_SHA_256, "a password", "n=alice,r=client", asked.token, before_nonce=before
    )
    if taken:
        assert exchange.step(final).token == expected
    else:
        with pytest.raises(AuthenticationFailed, match="does not belong"):
            exchange.step(final)


def test_scram_answers_for_unknown_users_alike_every_time():
    book = book_with()
    one, other = (ScramExchange(book, Mechanism.SCRAM_SHA_512, "n").step(b"n,,n=eve,r=c") for _ in "12")
    assert one == other
    known = ScramExchange(book, Mechanism.SCRAM_SHA_512, "n").step(b"n,,n=alice,r=c")
    assert len(one.token) == len(known.token)
    assert decoy(Mechanism.SCRAM_SHA_512, SECRET, "eve") != decoy(Mechanism.SCRAM_SHA_512, SECRET, "eva")
    exchange = ScramExchange(book, Mechanism.SCRAM_SHA_256, "n")
    asked = exchange.step(b"n,,n=eve,r=c")
    final, _ = client_final(Mechanism.SCRAM_SHA_256, "guess", "n=eve,r=c", asked.token)
    with pytest.raises(AuthenticationFailed, match="invalid credentials"):
        exchange.step(final)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n",
        b"n,,",
        b"p=tls-unique,,n=alice,r=c",
        b"n,a=bob,n=alice,r=c",
        b"n,,n=alice",
        b"n,,n=,r=c",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=c",
        b"n,,n=alice,r=c,tokenauth=true",
        b"n,,m=x,n=alice,r=c",
        b"\xff,,n=alice,r=c",
    ],
)
def test_scram_refuses_a_first_message_that_is_none(token):
    with pytest.raises(AuthenticationFailed):
        ScramExchange(book_with(), Mechanism.SCRAM_SHA_256, "n").step(token)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("c=biws", "c=eSws"),
        lambda text: text.replace("r=c", "r=d"),
        lambda text: text.replace(",p=", ",p=AA"),
        lambda text: text[: text.index(",p=")],
        lambda text: text[: text.index(",p=")] + ",p=*",
        lambda text: "",
    ],
)
def test_scram_refuses_a_last_message_of_another_exchange(change):
    exchange = ScramExchange(book_with(), Mechanism.SCRAM_SHA_256, "n")
    asked = exchange.step(b"n,,n=alice,r=c")
    final, _ = client_final(Mechanism.SCRAM_SHA_256, "a password", "n=alice,r=c", asked.token)
    with pytest.raises(AuthenticationFailed):
        exchange.step(change(final.decode()).encode())


def test_names_with_commas_and_equals_come_through():
    assert parse_client_first(b"n,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=x").user == "a,b=c"
    assert parse_client_first(b"y,,n==3D2C,r=x").user == "=2C"


@pytest.mark.parametrize("only", list(Mechanism))
def test_plain_checks_the_password_against_whichever_credential_there_is(only):
    book = book_with()
    book.users["alice"] = {only: book.users["alice"][only]}
    assert PlainExchange(book).step(b"\0alice\0a password").user == "alice"
    assert PlainExchange(book).step(b"alice\0alice\0a password").user == "alice"
    for wrong in (b"\0alice\0b password", b"\0bob\0a password"):
        with pytest.raises(AuthenticationFailed, match="invalid credentials"):
            PlainExchange(book).step(wrong)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0alice\0",
        b"\0\0x",
        b"bob\0alice\0a password",
        b"\0\xff\0x",
        b"\0a\0b\0c",
    ],
)
def test_plain_refuses_what_is_no_plain_message(token):
    with pytest.raises(AuthenticationFailed):
        PlainExchange(book_with()).step(token)
