"""Logging in, against the exchanges that the standards print."""

import base64

import pytest

from mainstem.client.sasl import exchange
from mainstem.client.settings import Sasl
from mainstem.model.errors import AuthenticationFailed, InvalidRequest

# RFC 7677, section 3.
NONCE = base64.b64decode("rOprNGfwEbeRWgbNEkqO")
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(password="pencil", mechanism="SCRAM-SHA-256", user="user"):
    return exchange(Sasl(user, password, mechanism), NONCE)


def test_plain_is_one_message():
    steps = exchange(Sasl("alice", "secret", "PLAIN"), b"")
    assert next(steps) == b"\0alice\0secret"
    with pytest.raises(StopIteration):
        steps.send(b"")


def test_scram_sha_256_is_the_standard_example():
    steps = scram()
    assert next(steps) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert steps.send(SERVER_FIRST) == CLIENT_FINAL
    with pytest.raises(StopIteration):
        steps.send(SERVER_FINAL)


def test_scram_sha_512_has_a_longer_proof():
    steps = scram(mechanism="SCRAM-SHA-512")
    next(steps)
    proof = steps.send(SERVER_FIRST).partition(b",p=")[2]
    assert len(base64.b64decode(proof)) == 64


def test_a_server_that_does_not_know_the_password_is_found_out():
    steps = scram()
    next(steps)
    steps.send(SERVER_FIRST)
    with pytest.raises(AuthenticationFailed, match="could not prove"):
        steps.send(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"r=somethingelse,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "not to our question"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "not to our question"),
        (SERVER_FIRST.replace(b"i=4096", b"i=1"), "iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=99999999999"), "iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=x"), "iterations"),
        (SERVER_FIRST.replace(b"s=W", b"s=*"), "not base64"),
        (b"\xff\xfe", "not to our question"),
    ],
)
def test_a_server_that_breaks_the_rules_is_refused(answer, why):
    steps = scram()
    next(steps)
    with pytest.raises(AuthenticationFailed, match=why):
        steps.send(answer)


def test_commas_and_equal_signs_in_a_name_are_escaped():
    assert next(scram(user="a,b=c")).startswith(b"n,,n=a=2Cb=3Dc,")


def test_a_mechanism_that_is_not_there_is_refused_and_a_password_never_shown():
    with pytest.raises(InvalidRequest, match="SCRAM-SHA-512"):
        Sasl("a", "b", "GSSAPI")
    assert "secret" not in repr(Sasl("a", "secret"))
