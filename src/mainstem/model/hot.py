"""Which modules are compiled when a C compiler is at hand, and which of them are right now.

setup.py reads this list; it must not import anything that is not in the standard library.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec

HOT_MODULES = (
    "mainstem.model.record_loop",
    "mainstem.model.record_check",
    "mainstem.model.big_endian",
    "mainstem.model.batch",
    "mainstem.kernel.log.scan",
    "mainstem.kernel.log.stage",
    "mainstem.kernel.log.journal",
    "mainstem.kernel.log.places",
    "mainstem.kernel.log.log",
    "mainstem.kernel.log.stretch",
    "mainstem.broker.partition",
    "mainstem.broker.publisher",
    "mainstem.fronts.kafka.inbox",
    "mainstem.fronts.kafka.answer",
    "mainstem.fronts.kafka.repeated_fetch",
    "mainstem.fronts.kafka.repeated",
    "mainstem.fronts.kafka.connection",
    "mainstem.wire.amqp.events",
    "mainstem.wire.amqp.scan",
    "mainstem.wire.amqp.records",
    "mainstem.wire.amqp.deliver",
    "mainstem.spark.json_loop",
)


def compiled_modules() -> dict[str, bool]:
    """Each hot module there is, and whether it runs compiled."""
    found = {}
    for name in HOT_MODULES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            found[name] = spec.origin.endswith(tuple(EXTENSION_SUFFIXES))
    return found
