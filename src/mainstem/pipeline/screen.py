"""A running pipeline on a terminal: a row per query, bars for work that ends, the last lines of its log.

`render` makes a picture of values; `Screen` shows it again and again. Where there is no terminal a plain line
per query appears every few seconds instead. Everything goes to standard error: results are elsewhere.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mainstem.pipeline import screen_text as text
from mainstem.pipeline.book_records import is_over, shown_state
from mainstem.pipeline.progress import QueryProgress, RunStatus
from mainstem.pipeline.screen_history import History, QueryHistory

WIDE = 130  # columns; below, what matters less goes to a line of its own
USUAL = 76  # columns, from which on there is room for bars beside the figures
LINES = 6  # of the log
PLAIN_EVERY_MS = 5_000
PER_SECOND = 4
COLORS = {"running": "green", "done": "green", "failed": "red", "lost": "red"}
LEVEL_COLORS = {"warning": "yellow", "error": "red", "debug": "dim"}


@dataclass(frozen=True, slots=True)
class View:
    """What a picture shows besides the status itself.

    `totals` are the rows that a query will have read in the end, where that is known. `is_whole`: the history
    goes back to the beginning of the run, so that its sums mean something.
    """

    now_ms: int
    history: History = field(default_factory=History)
    totals: Mapping[str, int] = field(default_factory=dict)
    lines: Sequence[tuple[str, str]] = ()  # level, text
    is_whole: bool = True


def render(status: RunStatus, view: View, width: int = WIDE) -> RenderableType:
    parts: list[RenderableType] = [_head(status, view)]
    if status.queries:
        parts += [_wide(status, view)] if width >= WIDE else _narrow(status, view, with_bars=width >= USUAL)
    if status.dead:
        parts.append(Text(f"dead letters: {text.dead_letters(status.dead)}", style="yellow"))
    for query in status.queries:
        if query.query in view.totals:
            parts.append(_bar(query, view, width, is_done=status.state == "done"))
    if status.error:
        parts.append(Text(text.printable(status.error), style="red"))
    for level, line in view.lines:
        style = LEVEL_COLORS.get(level, "")
        parts.append(Text(text.printable(line), style=style, no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def plain_lines(status: RunStatus, view: View) -> list[str]:
    """The same for a file: a line per query."""
    return [_plain(status, query, view) for query in status.queries]


def _head(status: RunStatus, view: View) -> Text:
    shown = shown_state(status, view.now_ms)
    end_ms = status.at_ms if is_over(status) else view.now_ms
    head = Text.assemble((status.pipeline, "bold"), "  ", (shown, COLORS.get(shown, "yellow")))
    facts: list[str] = [status.mode] if status.mode != "live" else []
    facts += [text.duration(end_ms - status.started_ms), f"{text.number(status.rows_in)} rows in"]
    facts += [f"{text.number(status.rows_out)} rows out", status.master]
    return head.append("  " + "  ".join(facts))


def _wide(status: RunStatus, view: View) -> Table:
    table = _table("query", "in", "out", "lag", "batch", "watermark (UTC)", "behind", "state")
    if view.is_whole:
        table.add_column("rows", justify="right")
    table.add_column("", style="cyan", no_wrap=True)
    for query in status.queries:
        history = view.history.get(query.query)
        cells = [*_figures(query), text.event_time(query.watermark_ms), _behind(query, view)]
        cells.append(text.state(query.state_rows, query.state_bytes))
        if view.is_whole:
            cells.append(text.number(history.rows_in if history else query.input_rows))
        table.add_row(Text(text.printable(query.query)), *cells, _bars(history))
    return table


def _narrow(status: RunStatus, view: View, *, with_bars: bool) -> list[RenderableType]:
    """What does not fit beside the figures stands below them."""
    table = _table("query", "in", "out", "lag", "batch")
    if with_bars:
        table.add_column("", style="cyan", no_wrap=True, overflow="crop")
    below: list[RenderableType] = []
    for query in status.queries:
        history = view.history.get(query.query)
        table.add_row(query.query, *_figures(query), *([_bars(history)] if with_bars else []))
        facts = []
        if query.watermark_ms is not None:
            facts.append(f"at {text.event_time(query.watermark_ms)}, {_behind(query, view)} behind")
        if query.state_rows or query.state_bytes:
            facts.append(f"state {text.state(query.state_rows, query.state_bytes)}")
        if facts:
            below.append(Text(f"{query.query}: {'; '.join(facts)}", style="dim"))
    return [table, *below]


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for title in titles:
        left = title in ("query", "watermark (UTC)", "state")
        table.add_column(title, justify="left" if left else "right", no_wrap=not left)
    return table


def _bars(history: QueryHistory | None) -> str:
    return text.bars(history.rates) if history else ""


def _figures(query: QueryProgress) -> list[str]:
    rates = [text.rate_in(query), text.rate_out(query)]
    return [*rates, text.number(query.lag), text.duration(query.batch_ms)]


def _behind(query: QueryProgress, view: View) -> str:
    """The clock less the event time: much of a replay, the delay that was asked for of a live stream."""
    return text.UNKNOWN if query.watermark_ms is None else text.duration(view.now_ms - query.watermark_ms)


def _done(query: QueryProgress, view: View) -> int:
    history = view.history.get(query.query)
    return min(history.rows_in if history else query.input_rows, view.totals[query.query])


def _bar(query: QueryProgress, view: View, width: int, *, is_done: bool) -> Table:
    done = _done(query, view)
    # What was counted before may be more than there was to read: offsets have holes, and new records come.
    total = done if is_done else view.totals[query.query]
    percent = 100 if not total else 100 * done // total
    said = f"{done:,} of {total:,} rows"
    if query.input_rows_per_s and done < total:
        said += f", {text.duration((total - done) / query.input_rows_per_s * 1000)} left"
    line = Table.grid(padding=(0, 2))
    line.add_row(
        Text(text.printable(query.query)),
        ProgressBar(total=max(total, 1), completed=done if total else 1, width=min(40, width // 3)),
        f"{percent} %",
        said,
    )
    return line


def _plain(status: RunStatus, query: QueryProgress, view: View) -> str:
    rate_in, rate_out, lag, batch = _figures(query)
    facts = [f"batch {query.batch}", f"{rate_in} in"]
    facts += [f"{rate_out} out"] if query.output_rows >= 0 else []
    facts += [f"lag {lag}"] if query.lag is not None else []
    facts.append(f"took {batch}")
    if query.watermark_ms is not None:
        facts.append(f"watermark {text.event_time(query.watermark_ms)}")
    if query.state_rows or query.state_bytes:
        facts.append(f"state {text.state(query.state_rows, query.state_bytes)}")
    facts += [f"dead letters {text.number(one.records)} in {text.printable(one.topic)}" for one in query.dead]
    if total := view.totals.get(query.query):
        facts.append(f"{_done(query, view):,} of {total:,} rows")
    elif view.is_whole and query.query in view.history:
        facts.append(f"{view.history[query.query].rows_in:,} rows so far")
    return f"{status.pipeline}/{query.query}: {', '.join(facts)}"


class Screen:
    """Shows a run while it is open. May be told things by many threads.

    Of a run that ends by itself the totals are told by the first batch and its lag, unless they are given.
    """

    def __init__(
        self,
        console: Console,
        now_ms: Callable[[], int],
        totals: Mapping[str, int] | None = None,
        *,
        is_whole: bool = True,
    ) -> None:
        self._console = console
        self._now_ms = now_ms
        self._totals = dict(totals or {})
        self._is_whole = is_whole
        self._lock = threading.Lock()
        self._history = History()
        self._lines: deque[tuple[str, str]] = deque(maxlen=LINES)
        self._status: RunStatus | None = None
        self._printed: tuple[str, int] | None = None  # state and time of the last plain lines
        self._told: dict[str, QueryProgress] = {}  # in plain lines
        self._live: Live | None = None

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, get_renderable=self._picture, refresh_per_second=PER_SECOND
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()  # which draws once more
            self._live = None

    def update(self, status: RunStatus) -> None:
        with self._lock:
            self._status = status
            for progress in status.queries:
                self._history.add(progress)
            lines = self._plain() if self._live is None else []
        for line in lines:
            self._print(line)

    def progressed(self, progress: QueryProgress) -> None:
        """A batch, also one that no status will name because the next one was quick."""
        with self._lock:
            self._history.add(progress)

    def log(self, level: str, line: str) -> None:
        with self._lock:
            self._lines.append((level, line))
        if self._live is None:
            self._print(f"{level}: {text.printable(line)}")

    def _view(self, status: RunStatus) -> View:
        told = self._history.totals() if self._is_whole and status.mode != "live" else {}
        return View(self._now_ms(), self._history, told | self._totals, tuple(self._lines), self._is_whole)

    def _picture(self) -> RenderableType:
        with self._lock:
            if self._status is None:
                lines = (text.printable(line) for _, line in self._lines)
                return Text("\n".join(["starting ...", *lines]), style="dim")
            return render(self._status, self._view(self._status), self._console.width)

    def _plain(self) -> list[str]:
        """The state when it changes; every few seconds the queries that have had a batch since."""
        assert self._status is not None
        view = self._view(self._status)
        shown = shown_state(self._status, view.now_ms)
        is_new = self._printed is None or self._printed[0] != shown
        if not is_new and self._printed is not None and 0 <= view.now_ms - self._printed[1] < PLAIN_EVERY_MS:
            return []
        self._printed = (shown, view.now_ms)
        news = tuple(one for one in self._status.queries if self._told.get(one.query) != one)
        self._told |= {one.query: one for one in news}
        lines = plain_lines(msgspec.structs.replace(self._status, queries=news), view)
        return [f"{self._status.pipeline}: {shown}", *lines] if is_new else lines

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
