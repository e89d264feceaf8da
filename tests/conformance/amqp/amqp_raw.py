"""An AMQP connection by hand: frames go out and come in one by one, right or wrong."""

from __future__ import annotations

import socket
import struct
from typing import Any

from amqp_kit import PATIENCE_S
from pamqp import body, commands, frame, header, heartbeat

FRAME_HEAD = struct.Struct(">BHI")
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END = 0xCE
CAPABILITIES = {
    "publisher_confirms": True,
    "consumer_cancel_notify": True,
    "basic.nack": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class Closed(Exception):
    """The broker hung up."""


class Raw:
    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._read = bytearray()
        self.tuned: Any = None

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    # --- out -----------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send(self, *methods: Any, channel: int = 1) -> None:
        self.write(b"".join(frame.marshal(method, channel) for method in methods))

    def send_frame(self, kind: int, payload: bytes, channel: int = 1, end: int = END) -> None:
        self.write(FRAME_HEAD.pack(kind, channel, len(payload)) + payload + bytes([end]))

    def publish(self, exchange: str, key: str, data: bytes = b"", **flags: Any) -> None:
        properties = flags.pop("properties", None) or commands.Basic.Properties()
        self.send(
            commands.Basic.Publish(exchange=exchange, routing_key=key, **flags),
            header.ContentHeader(0, len(data), properties),
            *([body.ContentBody(data)] if data else []),
        )

    # --- in ------------------------------------------------------------------------------------

    def receive_frame(self) -> tuple[int, int, bytes]:
        """(kind, channel, payload) of the next frame that is no heartbeat."""
        while True:
            kind, channel, size = FRAME_HEAD.unpack(self.exactly(FRAME_HEAD.size))
            payload = self.exactly(size)
            assert self.exactly(1)[0] == END
            if kind != HEARTBEAT:
                return kind, channel, payload

    def receive(self, channel: int = 1) -> Any:
        """The next method, content header or body, which has to come on this channel."""
        kind, came_on, payload = self.receive_frame()
        whole = FRAME_HEAD.pack(kind, came_on, len(payload)) + payload + bytes([END])
        _, _, found = frame.unmarshal(whole)
        assert came_on == channel, f"{found.name} came on channel {came_on}, not {channel}"
        return found

    def receive_message(self) -> tuple[Any, Any, bytes]:
        """A method with its content header and body."""
        method, head = self.receive(), self.receive()
        data = b""
        while len(data) < head.body_size:
            data += self.receive().value
        return method, head, data

    def ask(self, method: Any, channel: int = 1) -> Any:
        self.send(method, channel=channel)
        return self.receive(channel)

    def closes(self, code: int, text: str) -> None:
        """The broker closes the connection with this code and a text that starts like this."""
        closed = self.receive(0)
        assert isinstance(closed, commands.Connection.Close)
        told = (closed.reply_code, closed.reply_text)
        assert closed.reply_code == code, f"{told}, not {code} {text}..."
        assert closed.reply_text.startswith(text), f"{told}, not {code} {text}..."
        self.send(commands.Connection.CloseOk(), channel=0)
        assert self.hangs_up()

    def ends(self) -> bool:
        """The broker closes the connection, with or without a word."""
        try:
            return isinstance(self.receive(0), commands.Connection.Close)
        except (Closed, ConnectionError):
            return True

    def hangs_up(self) -> bool:
        """Read on until the broker closes the socket."""
        try:
            while True:
                self.receive_frame()
        except (Closed, ConnectionError):
            return True

    def exactly(self, size: int) -> bytes:
        while len(self._read) < size:
            piece = self._socket.recv(65536)
            if not piece:
                raise Closed
            self._read += piece
        out = bytes(self._read[:size])
        del self._read[:size]
        return out

    # --- conversation --------------------------------------------------------------------------

    def greet(self) -> Any:
        """Send the protocol's header; returns Connection.Start."""
        self.write(b"AMQP\x00\x00\x09\x01")
        return self.receive(0)

    def login(self, user: str = "guest", password: str = "guest", **capabilities: bool) -> Any:
        """Answer Connection.Start; returns what comes back, Connection.Tune if all is well."""
        start_ok = commands.Connection.StartOk(
            client_properties={"capabilities": capabilities},
            mechanism="PLAIN",
            response=f"\0{user}\0{password}",
            locale="en_US",
        )
        return self.ask(start_ok, channel=0)

    def open(
        self,
        *,
        frame_max: int = 131072,
        channel_max: int = 2047,
        heartbeat_s: int = 0,
        vhost: str = "/",
        capabilities: dict[str, bool] | None = None,
    ) -> Any:
        """From the first byte to Connection.OpenOk, or to what came instead."""
        self.greet()
        self.tuned = self.login(**(CAPABILITIES if capabilities is None else capabilities))
        tune_ok = commands.Connection.TuneOk(
            channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat_s
        )
        self.send(tune_ok, channel=0)
        return self.ask(commands.Connection.Open(virtual_host=vhost), channel=0)

    def open_channel(self, number: int) -> None:
        answer = self.ask(commands.Channel.Open(), channel=number)
        assert isinstance(answer, commands.Channel.OpenOk)

    def beat(self) -> None:
        self.send(heartbeat.Heartbeat(), channel=0)
