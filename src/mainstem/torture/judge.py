"""Ledger against readback: what a broker that loses nothing would show. Pure.

Judged while every client rests: no transaction is open and nothing is under way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from mainstem.client import TopicPartition
from mainstem.torture.ledger import NO_OFFSET, Ledger, Outcome, Repeats, Writer
from mainstem.torture.readback import Readback, View
from mainstem.torture.verdict import Check, Verdict

Views = Mapping[TopicPartition, View]
Name = tuple[str, int]  # writer, number


PROMISES = {
    "present": "every acknowledged record is there, at its offset",
    "whole": "every byte is as it was sent",
    "order": "each producer's records are in order",
    "once": "no record of an idempotent producer is there twice",
    "transactions": "transactions are whole: committed ones visible, aborted ones not",
    "pipeline": "consumed, transformed, produced exactly once",
    "groups": "group offsets never go back",
    "offsets": "offsets have no gaps",
    "watermark": "what readers were shown stays",
    "clients": "every client got its work done",
}


@dataclass(frozen=True, slots=True)
class Piping:
    """Group `name` copies `source` to `target`, partition by partition."""

    name: str
    source: str
    target: str


def judge(ledger: Ledger, readback: Readback, piping: Piping | None = None) -> Verdict:
    verdict = Verdict(PROMISES)
    checks, views = verdict.checks, readback.views
    copies = piping.target if piping is not None else ""
    originals = {place: view for place, view in views.items() if place.topic != copies}
    found = _by_name(views, checks["whole"])
    _judge_acked(ledger, originals, checks["present"])
    for place, view in originals.items():
        _judge_order(ledger, place, view, checks["order"])
    _judge_once(ledger, found, copies, checks)
    _judge_transactions(ledger, originals, checks["transactions"])
    if piping is not None:
        _judge_pipeline(piping, readback, checks["pipeline"])
    _judge_groups(ledger, readback, checks["groups"])
    _judge_offsets(views, checks["offsets"])
    _judge_seen(ledger, views, checks["watermark"])
    checks["clients"].checked += len(ledger.writers) + len(ledger.groups)
    checks["clients"].wrong.extend(ledger.remarks)
    return verdict


def _by_name(views: Views, whole: Check) -> Counter[tuple[str, int, str]]:
    """How often each record is there, by topic; damaged ones are reported."""
    found: Counter[tuple[str, int, str]] = Counter()
    for place, view in views.items():
        for offset, stored in view.records.items():
            whole(stored.name is not None, lambda: f"{place} offset {offset} is damaged")  # noqa: B023
            if stored.name is not None:
                found[*stored.name, place.topic] += 1
    return found


def _judge_acked(ledger: Ledger, views: Views, present: Check) -> None:
    everywhere = {stored.name for view in views.values() for stored in view.records.values()}
    for writer in ledger.writers.values():
        for number, offset in writer.acked.items():
            place, name = writer.sent[number], (writer.name, number)
            if offset == NO_OFFSET:
                present(name in everywhere, lambda: f"{name} is nowhere in {place}")  # noqa: B023
                continue
            stored = views[place].records.get(offset)
            there = stored.name if stored is not None else None
            present(
                there == name,
                lambda: f"{name} was acknowledged at {place} offset {offset}, where now is {there}",  # noqa: B023
            )


def _judge_order(ledger: Ledger, place: TopicPartition, view: View, order: Check) -> None:
    """By first appearance: retries without idempotence may bring a record again, later."""
    last: dict[str, int] = {}
    seen: set[Name] = set()
    for offset in sorted(view.records):
        name = view.records[offset].name
        if name is None or name in seen:
            continue
        seen.add(name)
        writer, number = name
        known = ledger.writers.get(writer)
        before = last.get(writer, -1)
        order(
            number > before and known is not None and known.sent.get(number) == place,
            lambda: f"{place} offset {offset}: {name} after number {before}",  # noqa: B023
        )
        last[writer] = number


def _judge_once(
    ledger: Ledger, found: Counter[tuple[str, int, str]], copies: str, checks: Mapping[str, Check]
) -> None:
    for (writer, number, topic), count in found.items():
        known = ledger.writers.get(writer)
        if topic != copies and known is not None and known.repeats is not Repeats.OFTEN:
            checks["once"](count == 1, lambda: f"{writer} {number} is {count} times in {topic}")  # noqa: B023


def _visible(writer: Writer, views: Views) -> Counter[int]:
    counts: Counter[int] = Counter()
    for place in set(writer.sent.values()):
        for stored in views[place].committed.values():
            if stored.name is not None and stored.name[0] == writer.name:
                counts[stored.name[1]] += 1
    return counts


def _judge_transactions(ledger: Ledger, views: Views, whole: Check) -> None:
    visible = {
        writer.name: _visible(writer, views) for writer in ledger.writers.values() if writer.transactional
    }
    for transaction in ledger.transactions:
        if not transaction.numbers:
            continue
        counts = [visible[transaction.writer][number] for number in transaction.numbers]
        outcome = transaction.outcome
        allowed = {
            Outcome.COMMITTED: counts == [1] * len(counts),
            Outcome.ABORTED: not any(counts),
            Outcome.UNKNOWN: counts == [1] * len(counts) or not any(counts),
            Outcome.OPEN: False,
        }
        first = f"{transaction.writer} {transaction.numbers[0]} to {transaction.numbers[-1]}"
        whole(allowed[outcome], lambda: f"{first} was {outcome.value}; visible: {counts}")  # noqa: B023


def _judge_pipeline(piping: Piping, readback: Readback, exact: Check) -> None:
    """Exactly the inputs below the group's offset are in the output, once each and in order."""
    offsets = readback.groups.get(piping.name, {})
    for place, source in readback.views.items():
        if place.topic != piping.source:
            continue
        upto = offsets.get(place, 0)
        wanted = [stored for offset, stored in sorted(source.committed.items()) if offset < upto]
        target = readback.views[TopicPartition(piping.target, place.partition)]
        got = [stored for _, stored in sorted(target.committed.items())]
        exact.checked += len(wanted)
        if wanted != got:
            missing, extra = Counter(wanted) - Counter(got), Counter(got) - Counter(wanted)
            exact.wrong.append(
                f"{place} was consumed up to {upto}: {len(wanted)} inputs, {len(got)} outputs, "
                f"missing {[one.name for one in missing][:5]}, too many {[one.name for one in extra][:5]}"
            )


def _judge_groups(ledger: Ledger, readback: Readback, forward: Check) -> None:
    for group, places in ledger.groups.items():
        for place, known in places.items():
            now = readback.groups.get(group, {}).get(place, 0)
            forward(
                (now == known.acked or now in known.tried) and now >= known.floor,
                lambda: f"{group} in {place}: {now}, but {known}",  # noqa: B023
            )


def _judge_offsets(views: Views, gapless: Check) -> None:
    for place, view in views.items():
        there = view.records.keys() | view.markers
        expected = set(range(view.start, view.high_watermark))
        gapless(there == expected, lambda: f"{place}: {_some(there ^ expected)} are missing or too many")  # noqa: B023
        gapless(
            view.last_stable == view.high_watermark,
            lambda: f"{place}: stable only up to {view.last_stable} of {view.high_watermark}, at rest",  # noqa: B023
        )


def _judge_seen(ledger: Ledger, views: Views, stays: Check) -> None:
    for place, watermark in ledger.watermarks.items():
        now = views[place].high_watermark
        stays(now >= watermark, lambda: f"{place}: high watermark {now}, but {watermark} was shown")  # noqa: B023
    for place, seen in ledger.seen.items():
        records = views[place].records
        for offset, digest in seen.items():
            stored = records.get(offset)
            stays(
                stored is not None and stored.digest == digest,
                lambda: f"{place} offset {offset} was read, and is now {'other' if stored else 'gone'}",  # noqa: B023
            )


def _some(offsets: set[int]) -> str:
    listed = sorted(offsets)
    return f"{len(listed)} offsets, {listed[:5]}"
