"""The principal of a client certificate: its subject, spelled as Kafka spells it (RFC 2253, last part first).

Reads DER just far enough to find the subject: Certificate { tbs { [0] version, serial, algorithm, issuer,
validity, subject, ... } ... }. The certificate was verified by TLS before it gets here. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from mainstem.model.errors import InvalidPrincipal

# Attribute types that have a name in RFC 2253; others are written as a number and hexadecimal.
_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_VERSION_TAG = 0xA0
_UTF8, _PRINTABLE, _TELETEX, _IA5, _UNIVERSAL, _BMP = 12, 19, 20, 22, 28, 30
_TEXT_ENCODINGS = {
    _UTF8: "utf-8",
    _PRINTABLE: "ascii",
    _TELETEX: "latin-1",
    _IA5: "ascii",
    _UNIVERSAL: "utf-32-be",
    _BMP: "utf-16-be",
}
_ESCAPED = frozenset(',=+"\\<>;#')


def principal_of_certificate(der: bytes) -> str:
    """`User:CN=orders,OU=Shop,O=Example`."""
    try:
        return "User:" + subject(der)
    except (IndexError, ValueError) as error:
        raise InvalidPrincipal(f"a certificate whose subject cannot be read: {error}") from None


def subject(der: bytes) -> str:
    (_, certificate, _), *_ = _values(der)
    (_, signed, _), *_ = _values(certificate)
    fields = [value for value in _values(signed) if value[0] != _VERSION_TAG]
    _, name, _ = fields[4]  # after serial, algorithm, issuer and validity
    parts = ["+".join(map(_attribute, _values(part))) for _, part, _ in _values(name)]
    return ",".join(reversed(parts))


def _attribute(value: tuple[int, bytes, bytes]) -> str:
    (_, type_bytes, _), (tag, content, whole) = _values(value[1])
    number = _object_id(type_bytes)
    name = _NAMES.get(number)
    if name is None or tag not in _TEXT_ENCODINGS:
        return f"{number}=#{whole.hex()}"
    return f"{name}={_escape(content.decode(_TEXT_ENCODINGS[tag]))}"


def _escape(text: str) -> str:
    """As Java does it, which escapes a little more than the RFC asks for."""
    body = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - before - len(body)
    escaped = "".join("\\" + c if c in _ESCAPED else c for c in body).replace("\0", "\\00")
    return "\\ " * before + escaped + "\\ " * after


def _values(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """(tag, content, the whole with its head) of each value in a row of them."""
    position = 0
    while position < len(data):
        tag, length, start = data[position], data[position + 1], position + 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[start : start + size], "big")
            start += size
        end = start + length
        if end > len(data):
            raise ValueError("it is cut short")
        yield tag, data[start:end], data[position:end]
        position = end


def _object_id(content: bytes) -> str:
    first = min(content[0] // 40, 2)
    numbers, number = [first, content[0] - 40 * first], 0
    for byte in content[1:]:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    return ".".join(map(str, numbers))
