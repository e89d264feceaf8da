"""For tests: a real broker in a `with` block, and what a test needs to break one.

Only light imports here: pytest loads the plugin, and with it this file, in every run of everybody's tests.
"""

from mainstem.testing.broker import Broker

__all__ = ["Broker"]
