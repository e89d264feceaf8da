"""What a message says of itself, beside its keys, that an exchange may go by. No protocol's own words."""

from __future__ import annotations

from collections.abc import Mapping


class Labels(dict[str, object]):
    """The headers of a message, and aside of them its properties by name, of those it has."""

    __slots__ = ("properties",)

    def __init__(self, headers: Mapping[str, object], properties: Mapping[str, str]) -> None:
        super().__init__(headers)
        self.properties = properties
