"""One connection to one broker: opened, logged in, asked and answered, in order.

Blocking. `ask` sends a request and waits for its answer; `send` and `receive` apart keep several requests in
flight. A connection that failed once stays failed: whoever owns it makes a new one.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from typing import TypeVar

from mainstem import __version__
from mainstem.client import codes, sasl
from mainstem.client.receiving import ReceiveMemory
from mainstem.client.settings import Address, ClientSettings, Tls
from mainstem.model.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    InvalidRequest,
    NotSupported,
    UnsupportedMechanism,
)
from mainstem.wire.kafka.api_versions import ApiVersionsRequest, ApiVersionsResponse
from mainstem.wire.kafka.apis import SPECS, ApiKey, ApiSpec
from mainstem.wire.kafka.frames import SIZE, decode_response, encode_request
from mainstem.wire.kafka.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from mainstem.wire.kafka.schema import Message

A = TypeVar("A", bound=Message)

HINT = "is the broker running? start one with `mainstem serve`"
# Later versions name topics by id; we know names where we produce and commit.
CAPS = {ApiKey.PRODUCE: 12, ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}
FIRST_API_VERSIONS = 3
_SPECS = {spec.name: spec for spec in SPECS.values()}


class Connection:
    """Open and ready when it exists; `versions` is what the broker offers, by API key."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        self.address = address
        self.is_broken = False
        self.versions: dict[int, tuple[int, int]] = {}
        self._was_answered = self._was_lost = False
        self._settings = settings
        self._pending: deque[tuple[ApiSpec, int, int]] = deque()
        self._next_id = 0
        self._memory = ReceiveMemory()
        self._socket = _connect(address, settings)
        try:
            self.versions = self._negotiate()
            if settings.sasl is not None:
                self._log_in()
        except BaseException:
            self.close()
            raise

    # --- asking --------------------------------------------------------------------------------

    def ask(self, message: Message, answer: type[A], *, extra_s: float = 0.0) -> A:
        """Send a request and wait for its answer; `extra_s` is what the broker may take on purpose."""
        self.send(message)
        return self.receive(answer, extra_s=extra_s)

    def send(self, message: Message, *, answered: bool = True) -> None:
        """`answered=False` for a Produce with acks 0, the only request without an answer."""
        spec = _SPECS[type(message).__name__.removesuffix("Request")]
        self._send(spec, self.version_of(spec), message, answered=answered)

    def receive(self, answer: type[A], *, extra_s: float = 0.0) -> A:
        """The answer to the oldest request in flight."""
        spec, version, wanted = self._pending.popleft()
        try:
            got, message = decode_response(spec, version, self._frame(spec, extra_s))
        except BaseException:
            # Also when somebody presses Ctrl-C: a late answer would be taken for that of the next request.
            self.close()
            raise
        if got != wanted:
            self.close()
            raise BrokerUnreachable(f"{self.address} answered request {got} when {wanted} was next")
        assert isinstance(message, answer)
        self._was_answered = True
        return message

    def version_of(self, spec: ApiSpec) -> int:
        """The highest version that both sides know."""
        low, high = self.versions.get(spec.key, (0, -1))
        version = min(high, spec.max_version, CAPS.get(spec.key, spec.max_version))
        if version < max(low, spec.min_version):
            raise NotSupported(f"{self.address} does not offer {spec.name}")
        return version

    def offers(self, key: ApiKey) -> bool:
        try:
            self.version_of(SPECS[key])
        except NotSupported:
            return False
        return True

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    def is_stale(self) -> bool:
        """Whether it broke, or the broker hung up while nobody was looking."""
        if self.is_broken:
            return True
        if self._pending:
            return False
        self._socket.setblocking(False)
        try:
            # Nothing is due: anything to read is the end, or bytes that nobody asked for.
            self._socket.recv(1)
            return True
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True

    def close(self) -> None:
        self.is_broken = True
        self._socket.close()

    # --- bytes ---------------------------------------------------------------------------------

    def _send(self, spec: ApiSpec, version: int, message: Message, *, answered: bool = True) -> None:
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        frame = encode_request(spec, version, self._next_id, self._settings.client_id, message)
        try:
            self._socket.settimeout(self._settings.request_timeout_s)
            self._socket.sendall(frame)
        except OSError as error:
            raise self._lost(spec, error) from None
        if answered:
            self._pending.append((spec, version, self._next_id))

    def _frame(self, spec: ApiSpec, extra_s: float) -> memoryview:
        """The next answer without its size."""
        timeout_s = self._settings.request_timeout_s + extra_s
        try:
            self._socket.settimeout(timeout_s)
            size = SIZE.unpack(self._read(SIZE.size))[0]
            if not SIZE.size <= size <= self._settings.max_response_bytes:
                self.close()
                raise BrokerUnreachable(
                    f"{self.address} answered {spec.name} with {size} bytes: does it speak Kafka without TLS?"
                )
            return self._read(size)
        except TimeoutError:
            self.close()
            raise BrokerUnreachable(
                f"{self.address} did not answer {spec.name} within {timeout_s:g} s"
            ) from None
        except OSError as error:
            raise self._lost(spec, error) from None

    def _read(self, size: int) -> memoryview:
        view = self._memory.take(size)
        have = 0
        while have < size:
            got = self._socket.recv_into(view[have:])
            if not got:
                raise ConnectionResetError("closed by the broker")
            have += got
        return view

    def _lost(self, spec: ApiSpec, error: OSError) -> BrokerUnreachable:
        self.close()
        self._was_lost = True
        why = f"lost the connection to {self.address} during {spec.name}: {error.strerror or error}"
        # A broker that wants to know who is there hangs up on the first real question.
        if not self._was_answered and self._settings.sasl is None and ApiKey.SASL_HANDSHAKE in self.versions:
            why += "; does it want a user and a password?"
        return BrokerUnreachable(why)

    # --- getting acquainted ----------------------------------------------------------------------

    def _negotiate(self) -> dict[int, tuple[int, int]]:
        spec = SPECS[ApiKey.API_VERSIONS]
        hello = ApiVersionsRequest("mainstem-client", __version__)
        try:
            self._send(spec, FIRST_API_VERSIONS, hello)
            frame = self._frame(spec, 0.0)
        except BrokerUnreachable as error:
            hung_up = self._was_lost and self._settings.tls is None
            advice = "; does this listener want TLS?" if hung_up else ""
            raise BrokerUnreachable(f"{error}{advice}") from None
        self._pending.popleft()
        # A broker that does not know this version answers in version 0; its code stands at the same place.
        old = int.from_bytes(frame[4:6], "big") == codes.UNSUPPORTED_VERSION
        _, answer = decode_response(spec, 0 if old else FIRST_API_VERSIONS, frame)
        assert isinstance(answer, ApiVersionsResponse)
        if not old:
            codes.check(answer.error_code, f"{self.address}: ApiVersions")
        return {offer.api_key: (offer.min_version, offer.max_version) for offer in answer.api_keys}

    def _log_in(self) -> None:
        wanted = self._settings.sasl
        assert wanted is not None
        if not self.offers(ApiKey.SASL_HANDSHAKE):
            raise UnsupportedMechanism(f"{self.address} knows no login; leave user and password away")
        answer = self.ask(SaslHandshakeRequest(wanted.mechanism), SaslHandshakeResponse)
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "none"
            raise UnsupportedMechanism(
                f"{self.address} does not take {wanted.mechanism} here; it offers {offered}"
            )
        # Randomness from the TLS library: a nonce must never repeat, in whatever process this runs.
        steps = sasl.exchange(wanted, ssl.RAND_bytes(18))
        to_send = next(steps)
        while True:
            got = self.ask(SaslAuthenticateRequest(to_send), SaslAuthenticateResponse)
            if got.error_code:
                why = got.error_message or "wrong user or password"
                raise AuthenticationFailed(f"{self.address}: {wanted.user!r} was not let in: {why}")
            try:
                to_send = steps.send(bytes(got.auth_bytes))
            except StopIteration:
                return


def _connect(address: Address, settings: ClientSettings) -> socket.socket:
    try:
        made = socket.create_connection((address.host, address.port), settings.connect_timeout_s)
    except TimeoutError:
        why = f"no answer within {settings.connect_timeout_s:g} s"
        raise BrokerUnreachable(f"cannot reach {address}: {why}; {HINT}") from None
    except socket.gaierror:
        raise BrokerUnreachable(f"cannot reach {address}: there is no host of that name") from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BrokerUnreachable(f"cannot reach {address}: {why}; {HINT}") from None
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if settings.tls is None:
        return made
    try:
        return _tls_context(settings.tls).wrap_socket(made, server_hostname=address.host)
    except OSError as error:  # ssl's errors are OSErrors too
        made.close()
        reason = getattr(error, "reason", None) or error.strerror or str(error)
        why = getattr(error, "verify_message", "") or reason.lower().replace("_", " ")
        # A certificate that is not trusted came through TLS; anything else may be a listener without it.
        advice = "" if getattr(error, "verify_message", "") else "; is this a listener without TLS?"
        raise BrokerUnreachable(f"TLS with {address} failed: {why}{advice}") from None


def _tls_context(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        if tls.cert_file is not None:
            context.load_cert_chain(tls.cert_file, tls.key_file)
    except OSError as error:
        files = ", ".join(filter(None, (tls.ca_file, tls.cert_file, tls.key_file)))
        raise InvalidRequest(f"cannot use the certificates in {files}: {error.strerror or error}") from None
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
