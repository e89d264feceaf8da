"""How rules name queues and exchanges. They are resources of the kind `topic`, and share its names:

    orders            the topic `orders`; the queue and the exchange `orders` in the namespace `/`
    /shop/orders      the queue and the exchange `orders` in the namespace `shop`
    /%2Fprod/orders   those in the namespace `/prod`: its `/` and `%` are escaped, as in an AMQP URI
    %2Ftmp            those called `/tmp`: a name that begins with `/`, `%` or `*` has this escaped, anywhere

So no two things share a name, whatever they are called. What begins with `/` is outside of the namespace `/`
and no topic, so that a prefix of names in `/` never reaches into another namespace. Pure.
"""

from __future__ import annotations

from mainstem.model.errors import InvalidRequest

DEFAULT = "/"
_ESCAPED = str.maketrans({"%": "%25", "/": "%2F"})
# A name that begins with one of these would read as something else.
_FIRST = {"/": "%2F", "%": "%25", "*": "%2A"}


def base_of(namespace: str) -> str:
    """What every name in the namespace begins with."""
    return "" if namespace == DEFAULT else f"/{namespace.translate(_ESCAPED)}/"


def rule_name(namespace: str, name: str) -> str:
    """Also of the beginning of a name, for a rule with a prefix."""
    return base_of(namespace) + (_FIRST[name[0]] + name[1:] if name[:1] in _FIRST else name)


def is_elsewhere(named: str) -> bool:
    """In another namespace than `/`."""
    return named.startswith("/")


def split(named: str) -> tuple[str, str] | None:
    """The namespace and the name in it, which may be empty. None: nothing can have this name."""
    namespace, name = DEFAULT, named
    if is_elsewhere(named):
        part, slash, name = named[1:].partition("/")
        namespace = part.replace("%2F", "/").replace("%25", "%")
        if not slash or not part or base_of(namespace) != f"/{part}/":
            return None
    for char, escaped in _FIRST.items():
        if name.startswith(escaped):
            return namespace, char + name[3:]
    return None if name[:1] in _FIRST else (namespace, name)


def check_elsewhere(named: str, is_prefix: bool) -> None:
    """Refuse what nothing can be called: somebody meant something else by it."""
    if is_prefix and "/" not in named[1:]:
        return  # the beginning of names of namespaces
    found = split(named)
    if found is None:
        raise InvalidRequest(
            f"nothing has the name {named!r}: write NAME for what is in the namespace /, else"
            " /NAMESPACE/NAME, with %2F and %25 for each / and % of the namespace, and for a /, % or * (%2A)"
            " that a name begins with"
        )
    if not found[1] and not is_prefix:
        raise InvalidRequest(f"{named!r} is a namespace: make it a prefix, for all that is in it")
