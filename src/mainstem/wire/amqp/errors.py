"""What goes wrong on an AMQP connection, as the protocol names it."""

from __future__ import annotations

from mainstem.model.errors import MainstemError

NAMES = {
    311: "CONTENT_TOO_LARGE",
    312: "NO_ROUTE",
    313: "NO_CONSUMERS",
    320: "CONNECTION_FORCED",
    402: "INVALID_PATH",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    504: "CHANNEL_ERROR",
    505: "UNEXPECTED_FRAME",
    506: "RESOURCE_ERROR",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}
# Of the codes below 500: these end the connection, all others only the channel.
_HARD = frozenset((320, 402))
_MAX_TEXT_BYTES = 255  # a short string


class AmqpError(MainstemError):
    """Closes a channel or, by its code, the whole connection; class and method are those that caused it."""

    def __init__(
        self,
        code: int,
        text: str,
        class_id: int = 0,
        method_id: int = 0,
        closes_connection: bool | None = None,
    ) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.class_id = class_id
        self.method_id = method_id
        if closes_connection is None:
            closes_connection = code >= 500 or code in _HARD
        self.closes_connection = closes_connection

    @property
    def name(self) -> str:
        return NAMES.get(self.code, "INTERNAL_ERROR")

    @property
    def reply_text(self) -> str:
        """What the client is told: short enough for the wire, cut between characters."""
        whole = f"{self.name} - {self.text}".encode(errors="replace")
        return whole[:_MAX_TEXT_BYTES].decode(errors="ignore")

    def __str__(self) -> str:
        return f"{self.code} {self.name} - {self.text}"
