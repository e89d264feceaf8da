from __future__ import annotations

import inspect
from pathlib import Path

from mainstem.testing import Broker

PAGE = (Path(__file__).parents[3] / "docs" / "operate" / "testing.md").read_text()


def test_the_page_names_where_a_broker_listens_and_what_can_be_done_with_it():
    # close() is what leaving the block does.
    public = {name for name in vars(Broker) if not name.startswith("_")} - {"close"} | {"listening"}
    assert [name for name in sorted(public) if f"`broker.{name}" not in PAGE] == []


def test_the_page_says_of_each_argument_what_it_takes():
    arguments = list(inspect.signature(Broker).parameters)
    heading = f"`Broker({arguments[0]}, {', '.join(f'{name}=...' for name in arguments[1:])})`"
    assert heading in PAGE
    assert [name for name in arguments if f"- `{name}" not in PAGE] == []
