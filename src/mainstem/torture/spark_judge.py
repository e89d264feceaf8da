"""What came out against what went in: every row counted exactly once, and batches shown whole. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from mainstem.torture.spark_rows import Row, Rows, Sum, Windows
from mainstem.torture.verdict import Check

PROMISES = {
    "sent": "every row is in the input, once",
    "copied": "every row is in the copy as it was sent, exactly once",
    "windows": "every closed window has the count and sum of its rows, and comes once",
    "firsts": "every window is announced when its first row comes, and once",
    "batches": "readers were shown whole batches only",
    "stays": "what readers were shown stays",
}
SHOWN = 5  # examples in a finding

Ends = tuple[int, ...]  # the next offset of each partition of a topic


class Copied(msgspec.Struct, frozen=True, gc=False):
    """A row of the copy. `batch` is the time of the batch that wrote it, in ms: no two have the same."""

    id: int
    key: str
    amount: int
    at_ms: int
    batch: int

    @property
    def row(self) -> Row:
        return Row(self.id, self.key, self.amount, self.at_ms)


class Window(msgspec.Struct, frozen=True, gc=False):
    key: str
    start_ms: int
    count: int
    amount: int
    batch: int

    @property
    def sum(self) -> Sum:
        return Sum(self.count, self.amount)


class First(msgspec.Struct, frozen=True, gc=False):
    """A key in a window, told of when its first row came."""

    key: str
    start_ms: int
    batch: int


@dataclass(frozen=True, slots=True)
class Output:
    """What readers of committed records get in the end, each topic by partition and in order.

    `firsts` are None if that query did not run.
    """

    sent: Sequence[Row]
    copies: Sequence[Sequence[Copied]]
    windows: Sequence[Sequence[Window]]
    firsts: Sequence[Sequence[First]] | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """How far readers of committed records could read, topic by topic, whenever that had changed."""

    copies: Sequence[Ends] = ()
    windows: Sequence[Ends] = ()
    firsts: Sequence[Ends] = ()


@dataclass(frozen=True, slots=True)
class SparkVerdict:
    checks: Mapping[str, Check] = field(default_factory=lambda: {name: Check() for name in PROMISES})

    @property
    def is_good(self) -> bool:
        """A promise that was never looked at is not kept."""
        return all(check.checked and not check.wrong for check in self.checks.values())

    def findings(self) -> list[str]:
        return [f"{name}: {text}" for name, check in self.checks.items() for text in check.wrong]


def judge(rows: Rows, output: Output, shown: Shown) -> SparkVerdict:
    asked = [name for name in PROMISES if name != "firsts" or output.firsts is not None]
    checks = {name: Check() for name in asked}
    _judge_rows(rows, output.sent, checks["sent"])
    _judge_rows(rows, [one.row for part in output.copies for one in part], checks["copied"])
    windows = rows.windows()
    closed = {window: held for window, held in windows.items() if rows.is_closed(window[1])}
    _judge_windows(closed, [one for part in output.windows for one in part], checks["windows"])
    if output.firsts is not None:
        _judge_firsts(windows, [one for part in output.firsts for one in part], checks["firsts"])
    for name, parts, ends in (
        ("copies", [[one.batch for one in part] for part in output.copies], shown.copies),
        ("windows", [[one.batch for one in part] for part in output.windows], shown.windows),
        ("firsts", [[one.batch for one in part] for part in output.firsts or ()], shown.firsts),
    ):
        _judge_batches(name, parts, ends, checks["batches"])
        _judge_stays(name, parts, ends, checks["stays"])
    return SparkVerdict(checks)


def _judge_rows(rows: Rows, found: Sequence[Row], once: Check) -> None:
    once.checked += rows.count
    counts = Counter(row.id for row in found)
    _say(once, "are missing", [number for number in range(1, rows.count + 1) if not counts[number]])
    _say(once, "are there twice or more", [number for number, count in counts.items() if count > 1])
    _say(once, "were never sent", [number for number in counts if not 1 <= number <= rows.count])
    known = (row for row in found if 1 <= row.id <= rows.count)
    _say(once, "are not as they were sent", [row.id for row in known if row != rows.row(row.id)])


def _judge_windows(wanted: Windows, found: Sequence[Window], exact: Check) -> None:
    exact.checked += len(wanted)
    _judge_each(wanted, ((one.key, one.start_ms) for one in found), exact)
    wrong = [
        (one.key, one.start_ms, tuple(one.sum), "not", tuple(wanted[one.key, one.start_ms]))
        for one in found
        if (one.key, one.start_ms) in wanted and one.sum != wanted[one.key, one.start_ms]
    ]
    _say(exact, "have another count or sum", wrong)


def _judge_firsts(wanted: Windows, found: Sequence[First], once: Check) -> None:
    once.checked += len(wanted)
    _judge_each(wanted, [(one.key, one.start_ms) for one in found], once)


def _judge_each(wanted: Windows, found: Iterable[tuple[str, int]], once: Check) -> None:
    counts = Counter(found)
    _say(once, "are missing", [window for window in wanted if window not in counts])
    _say(once, "came twice or more", [window for window, count in counts.items() if count > 1])
    _say(once, "should not be there", [window for window in counts if window not in wanted])


def _judge_batches(name: str, parts: Sequence[Sequence[int]], shown: Iterable[Ends], whole: Check) -> None:
    """Batches follow each other in every partition, so each ends at one place in each of them."""
    for index, part in enumerate(parts):
        back = [at for at in range(1, len(part)) if part[at] < part[at - 1]]
        whole(not back, lambda: f"{name} partition {index}: an earlier batch again at {back[:SHOWN]}")  # noqa: B023
    ends, borders = [0] * len(parts), {(0,) * len(parts)}
    sizes = [Counter(part) for part in parts]
    for batch in sorted(set().union(*sizes)):
        ends = [end + size[batch] for end, size in zip(ends, sizes, strict=True)]
        borders.add(tuple(ends))
    for seen in shown:
        whole(seen in borders, lambda: f"{name}: readers could read up to {seen}, within a batch")  # noqa: B023


def _judge_stays(name: str, parts: Sequence[Sequence[int]], shown: Sequence[Ends], stays: Check) -> None:
    final = tuple(len(part) for part in parts)
    for before, after in zip(shown, [*shown[1:], final], strict=False):
        stays(
            all(a <= b for a, b in zip(before, after, strict=True)),
            lambda: f"{name}: readers could read up to {before}, and then up to {after}",  # noqa: B023
        )


def _say(check: Check, what: str, which: Sequence[object]) -> None:
    if which:
        check.wrong.append(f"{len(which):,} {what}: {', '.join(map(str, which[:SHOWN]))}")
