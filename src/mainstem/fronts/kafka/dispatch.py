"""From a frame to its handler, and from the handler to an answer.

Produce and Fetch answer through callbacks, because they decide the broker's speed; everything else is an
`async def handle(request, message) -> message` in `handlers/`, run as a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from mainstem.broker.access.certificate import principal_of_certificate
from mainstem.fronts.kafka.answer import Answer
from mainstem.fronts.kafka.codes import UNSUPPORTED_VERSION
from mainstem.fronts.kafka.encoding import Encoded
from mainstem.fronts.kafka.session import Listener, Request, Session
from mainstem.fronts.kafka.versions import api_versions
from mainstem.model.errors import (
    InvalidPrincipal,
    InvalidRequest,
    MainstemError,
    RequestTooLarge,
    UnsupportedVersion,
)
from mainstem.model.logs import get_log
from mainstem.model.slices import Chunk
from mainstem.wire.kafka.api_versions import ApiVersionsResponse
from mainstem.wire.kafka.apis import SPECS, ApiKey, ApiSpec
from mainstem.wire.kafka.codec import decoder
from mainstem.wire.kafka.frames import (
    RequestHeader,
    decode_request_header,
    encode_response,
    response_head,
)
from mainstem.wire.kafka.primitives import MOST_ELEMENTS

events = get_log(__name__)

# Objects take many times the bytes that they are made of, so what becomes objects has a limit of its own, and
# another of how many there are.
# Produce is not decoded into objects.
MAX_DECODED_BYTES = 8 << 20
# A larger body is decoded off the loop.
DECODED_AT_ONCE = 128 << 10

Handler = Callable[[Request, Any], Awaitable[Any]]
RawLogin = Callable[[Session, bytes], Awaitable[bytes]]


# Starts a hot request: (session, header, frame, body position, answer) -> the answer, if there will be one.
HotHandler = Callable[[Session, RequestHeader, memoryview, int, Answer], Answer | None]


class Dispatcher:
    """One per listener."""

    def __init__(
        self,
        listener: Listener,
        handlers: dict[ApiKey, Handler],
        hot: dict[ApiKey, HotHandler],
        open_before_login: frozenset[ApiKey],
        raw_login: RawLogin,
        max_bytes_before_authentication: int = 64 << 10,
    ) -> None:
        self.listener = listener
        self._handlers = handlers
        # By plain number: looking one up costs less than making an ApiKey of it.
        self._hot: dict[int, HotHandler] = {int(key): handler for key, handler in hot.items()}
        self._versions: dict[int, tuple[int, int]] = {
            int(key): pair for key, pair in listener.versions.items()
        }
        self._open_before_login: frozenset[int] = open_before_login
        self._raw_login = raw_login
        self.max_bytes_before_authentication = max_bytes_before_authentication
        requests = listener.broker.meters.counter("mainstem_kafka_requests", "Requests taken, by API", "api")
        self._counters = {key: requests.at(SPECS[key].name) for key in self._versions}
        self._produced, self._fetched = self._counters[ApiKey.PRODUCE], self._counters[ApiKey.FETCH]
        self._tasks: set[asyncio.Task[None]] = set()

    def new_session(self, host: str, dialled: tuple[str, int], certificate: bytes | None = None) -> Session:
        session = Session(self.listener, host, dialled, authenticated=not self.listener.needs_authentication)
        if certificate:
            # It was checked against the trusted ones: that is as good as a login.
            try:
                session.principal = principal_of_certificate(certificate)
                session.authenticated = True
            except InvalidPrincipal as error:
                session.ending = str(error)
        return session

    def max_bytes(self, session: Session) -> int:
        """A stranger gets little memory."""
        if session.authenticated:
            return self.listener.max_request_bytes
        return self.max_bytes_before_authentication

    def count_fetch(self) -> None:
        """One that was answered without `start`."""
        self._fetched.value += 1

    def count_repeated(self, count: int) -> None:
        """Produce requests that were taken without `start`."""
        self._produced.value += count

    def start(self, session: Session, frame: memoryview, on_ready: Callable[[], None]) -> Answer | None:
        """Begin to answer a request. None: the client wants no answer. Raises to close the connection."""
        if session.takes_raw_tokens:
            answer = Answer(on_ready)
            self._spawn(self._run_raw(session, bytes(frame), answer), answer)
            return answer
        header, position = decode_request_header(frame)
        key = header.api_key
        versions = self._versions.get(key)
        if versions is None:
            raise UnsupportedVersion(f"API key {key} is not known here")
        low, high = versions
        if not low <= header.api_version <= high:
            if key == ApiKey.API_VERSIONS:
                return self._unknown_api_versions(header, on_ready)
            raise UnsupportedVersion(f"{SPECS[key].name} version {header.api_version} is not known here")
        if not session.authenticated and key not in self._open_before_login:
            raise InvalidRequest(f"{SPECS[key].name} before authentication")
        if len(frame) > MAX_DECODED_BYTES and key != ApiKey.PRODUCE:
            raise RequestTooLarge(
                f"{SPECS[key].name} of {len(frame)} bytes; only Produce may exceed {MAX_DECODED_BYTES}"
            )
        self._counters[key].value += 1
        hot = self._hot.get(key)
        if hot is not None:
            answer = Answer(on_ready, may_be_followed=key == ApiKey.PRODUCE)
            return hot(session, header, frame, position, answer)
        return self._start_task(session, SPECS[key], header, frame, position, on_ready)

    def _unknown_api_versions(self, header: RequestHeader, on_ready: Callable[[], None]) -> Answer:
        """In version 0, which every client reads, with the ranges so that it can ask again."""
        response = ApiVersionsResponse(
            error_code=UNSUPPORTED_VERSION, api_keys=api_versions(self.listener.versions)
        )
        spec = SPECS[ApiKey.API_VERSIONS]
        answer = Answer(on_ready)
        answer.chunks = [encode_response(spec, 0, header.correlation_id, response)]
        return answer

    def _start_task(
        self,
        session: Session,
        spec: ApiSpec,
        header: RequestHeader,
        frame: memoryview,
        position: int,
        on_ready: Callable[[], None],
    ) -> Answer:
        version = header.api_version
        request = Request(session, version, header.client_id or "")
        answer = Answer(on_ready)
        if len(frame) > DECODED_AT_ONCE:
            self._spawn(self._run_large(spec, header, request, frame[position:], answer), answer)
        else:
            message, _ = decoder(spec.request, version, MOST_ELEMENTS)(frame, position)
            self._spawn(self._run(spec, header, request, message, answer), answer)
        return answer

    def _spawn(self, work: Coroutine[Any, Any, None], answer: Answer) -> None:
        task = asyncio.get_running_loop().create_task(work)
        answer.on_cancel = task.cancel

        def hurry() -> None:
            task.cancel()
            answer.fail("others need the memory of a request that was not answered in time")

        answer.hurry, answer.hurry_closes = hurry, True
        # The loop keeps only weak references to tasks.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_raw(self, session: Session, token: bytes, answer: Answer) -> None:
        """The oldest way to log in: tokens without headers, and a closed connection for a wrong one."""
        try:
            reply = await self._raw_login(session, token)
        except MainstemError as error:
            answer.fail(str(error))
        except Exception as error:  # a bug, see `_run`
            events.error("a request failed", peer=session.peer, api="raw SASL token", error=error)
            answer.fail("internal error")
        else:
            answer.ready([len(reply).to_bytes(4, "big") + reply])

    async def _run_large(
        self, spec: ApiSpec, header: RequestHeader, request: Request, body: memoryview, answer: Answer
    ) -> None:
        """Decodes in a reader thread: a hundred thousand topics take a tenth of a second."""
        try:
            decode = decoder(spec.request, header.api_version, MOST_ELEMENTS)
            message, _ = await request.broker.store.in_reader(decode, body, 0)
        except MainstemError as error:
            answer.fail(str(error))
        except Exception as error:  # a bug, see `_run`
            events.error("a request could not be read", peer=request.session.peer, api=spec.name, error=error)
            answer.fail(f"{spec.name}: internal error")
        else:
            await self._run(spec, header, request, message, answer)

    async def _run(
        self, spec: ApiSpec, header: RequestHeader, request: Request, message: Any, answer: Answer
    ) -> None:
        try:
            response = await self._handlers[spec.key](request, message)
            chunks = _framed(spec, header, response)
        except MainstemError as error:
            # Handlers put errors where the protocol has a field for them; what gets here has none.
            answer.fail(f"{spec.name}: {error}")
        except Exception as error:  # a bug: this connection ends, the broker goes on
            peer, version = request.session.peer, header.api_version
            events.error("a request failed", peer=peer, api=spec.name, version=version, error=error)
            answer.fail(f"{spec.name}: internal error")
        else:
            answer.ready(chunks)


def _framed(spec: ApiSpec, header: RequestHeader, response: Any) -> list[Chunk]:
    version, correlation_id = header.api_version, header.correlation_id
    if isinstance(response, Encoded):
        body = response.body
        return [response_head(spec, version, correlation_id, len(body)), body]
    return [encode_response(spec, version, correlation_id, response)]
