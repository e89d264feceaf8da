"""SaslHandshake and SaslAuthenticate: a connection says who it is.

A failed login is answered after a short while and then the connection is closed: one try each, and no
guessing at the speed of the network. What is answered never tells whether the user exists.
"""

from __future__ import annotations

import asyncio

from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.session import Request, Session
from mainstem.model.errors import AccessError, AuthenticationFailed, IllegalSaslState, MainstemError
from mainstem.model.logs import get_log
from mainstem.wire.kafka.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

events = get_log(__name__)

FAILED_LOGIN_DELAY_S = 0.1
MAX_NAME_IN_LOG = 64  # characters of what anybody may send
# From this version on tokens come in SaslAuthenticate requests, before it as bare frames.
TOKENS_IN_REQUESTS_SINCE = 1


async def handshake(request: Request, message: SaslHandshakeRequest) -> SaslHandshakeResponse:
    session, authenticator = request.session, request.session.listener.authenticator
    if authenticator is None:
        return SaslHandshakeResponse(error_code=code_of(IllegalSaslState()))
    offered = list(authenticator.mechanisms)
    try:
        session.exchange = authenticator.start(message.mechanism)
    except AccessError as error:
        session.ending = str(error)
        return SaslHandshakeResponse(error_code=code_of(error), mechanisms=offered)
    session.takes_raw_tokens = request.version < TOKENS_IN_REQUESTS_SINCE
    return SaslHandshakeResponse(mechanisms=offered)


async def authenticate(request: Request, message: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    session = request.session
    try:
        token = await _step(session, message.auth_bytes)
    except MainstemError as error:
        session.ending = "authentication failed" if isinstance(error, AuthenticationFailed) else str(error)
        return SaslAuthenticateResponse(error_code=code_of(error), error_message=str(error))
    return SaslAuthenticateResponse(auth_bytes=token)


async def raw_login(session: Session, token: bytes) -> bytes:
    return await _step(session, token)


async def _step(session: Session, token: bytes) -> bytes:
    exchange, authenticator = session.exchange, session.listener.authenticator
    if exchange is None or authenticator is None:
        raise IllegalSaslState("SaslAuthenticate without a SaslHandshake before it")
    try:
        step = await authenticator.step(exchange, token)
        if step.user is not None:
            _become(session, f"User:{step.user}")
    except AuthenticationFailed as error:
        session.exchange = None
        events.warning(
            "login failed",
            peer=session.peer,
            user=exchange.claimed[:MAX_NAME_IN_LOG],
            mechanism=exchange.mechanism,
            why=str(error),
        )
        await asyncio.sleep(FAILED_LOGIN_DELAY_S)
        raise AuthenticationFailed(
            f"Authentication failed: invalid credentials with SASL mechanism {exchange.mechanism}"
        ) from None
    return step.token


def _become(session: Session, principal: str) -> None:
    if session.logged_in and session.principal != principal:
        raise AuthenticationFailed(f"{session.principal} cannot become {principal} on one connection")
    session.principal = principal
    session.authenticated = session.logged_in = True
    session.exchange = None
    session.takes_raw_tokens = False
