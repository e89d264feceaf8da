"""Users who came with a hash of RabbitMQ's: they log in by PLAIN, and the hash is not kept."""

from __future__ import annotations

import base64
import hashlib

import msgspec
import pytest

from mainstem.broker.access import scram
from mainstem.broker.access.book import AccessBook, AccessDelta, CredentialSet, HashedRemoved, HashedSet
from mainstem.broker.access.hashes import parse
from mainstem.broker.access.sasl import PlainExchange, ScramExchange
from mainstem.broker.access.scram import Mechanism
from mainstem.model.errors import AuthenticationFailed, UnacceptableCredential

SHA256, SHA512 = "rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512"
STRONGEST = Mechanism.SCRAM_SHA_512


def rabbit_hash(password, name="sha256", salt=b"salt"):
    """As RabbitMQ makes one."""
    return base64.b64encode(salt + hashlib.new(name, salt + password.encode()).digest()).decode()


def hashed_set(password, user="old", algorithm=SHA256, name="sha256"):
    found = parse(rabbit_hash(password, name), algorithm)
    salted = scram.salt_password(STRONGEST, found.secret, b"0123456789abcdef", 4096)
    made = scram.credential(STRONGEST, b"0123456789abcdef", 4096, salted)
    return HashedSet(user, found.algorithm, found.salt, made.salt, made.iterations, made.stored_key)


def book_with(*deltas):
    book = AccessBook()
    book.decoy_secret = b"a secret of the broker"
    for delta in deltas:
        book.apply(delta)
    return book


def log_in(book, password, user="old"):
    return PlainExchange(book).step(f"\0{user}\0{password}".encode()).user


def test_the_hash_that_rabbitmq_documents_is_of_its_password():
    """Its documentation computes this one: salt 908DC60A, password test12."""
    found = parse("kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", SHA256)
    assert found.salt.hex().upper() == "908DC60A"
    assert found.digest == hashlib.sha256(found.salt + b"test12").digest()


@pytest.mark.parametrize(("algorithm", "name"), [(SHA256, "sha256"), (SHA512, "sha512")])
def test_who_knows_the_password_gets_in_by_plain(algorithm, name):
    book = book_with(hashed_set("päss", algorithm=algorithm, name=name))
    assert log_in(book, "päss") == "old"
    for wrong in (
        "pass",
        hashlib.new(name, b"salt" + "päss".encode()).hexdigest(),
        rabbit_hash("päss", name),
    ):
        with pytest.raises(AuthenticationFailed, match="invalid credentials"):
            log_in(book, wrong)


def test_scram_treats_such_a_user_as_one_that_does_not_exist():
    exchange = ScramExchange(book_with(hashed_set("x")), STRONGEST, "server")
    decoy = scram.decoy(STRONGEST, b"a secret of the broker", "old")
    assert f"s={base64.b64encode(decoy.salt).decode()}" in exchange.step(b"n,,n=old,r=client").token.decode()


def test_the_hash_is_not_in_what_is_kept():
    kept = msgspec.msgpack.encode(list(book_with(hashed_set("x")).dump()))
    assert hashlib.sha256(b"saltx").digest() not in kept
    assert hashlib.sha256(b"saltx").hexdigest().encode() not in kept


def test_a_new_password_replaces_the_hash_for_good():
    salted = scram.salt_password(STRONGEST, "new", b"0123456789abcdef", 4096)
    made = scram.credential(STRONGEST, b"0123456789abcdef", 4096, salted)
    changed = CredentialSet("old", int(STRONGEST), made.salt, 4096, made.stored_key, made.server_key)
    for deltas in ((hashed_set("x"), changed), (changed, hashed_set("x"))):
        book = book_with(*deltas)
        assert book.names() == ["old"]
        assert not book.hashed
        assert log_in(book, "new") == "old"
        with pytest.raises(AuthenticationFailed):
            log_in(book, "x")


def test_the_book_keeps_and_removes_such_users():
    decode = msgspec.msgpack.Decoder(AccessDelta).decode
    book = book_with(*(decode(msgspec.msgpack.encode(delta)) for delta in [hashed_set("x")] * 2))
    again = book_with(*book.dump())
    assert again.hashed == book.hashed
    assert again.knows("old")
    again.apply(HashedRemoved("old"))
    again.apply(HashedRemoved("old"))
    assert not again.knows("old")
    assert again.names() == []


@pytest.mark.parametrize(
    ("text", "algorithm", "why"),
    [
        (rabbit_hash("x"), None, "MD5"),
        (rabbit_hash("x"), "rabbit_password_hashing_md5", "MD5"),
        (rabbit_hash("x"), "something", "unknown"),
        ("a?b", SHA256, "not base64"),
        ("a\u00e9", SHA256, "not base64"),
        (rabbit_hash("x"), SHA512, "36 bytes"),
        ("", SHA256, "0 bytes"),
    ],
)
def test_what_is_no_such_hash_is_refused(text, algorithm, why):
    with pytest.raises(UnacceptableCredential, match=why):
        parse(text, algorithm)
