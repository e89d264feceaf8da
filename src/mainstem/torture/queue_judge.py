"""What clients of queues saw against what they were promised. Pure.

Judged while every client rests. Most queues are empty then: each message was taken and settled. Others were
left as they are, with so many messages in them as the broker says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from mainstem.torture.ledger import Outcome
from mainstem.torture.queue_ledger import ACK_S, Delivery, Fate, Layout, Name, QueueLedger, Sent, Session
from mainstem.torture.verdict import Check, Verdict

PROMISES = {
    "present": "every confirmed message was taken from its queues, or is still there",
    "whole": "every message is as it was sent, and where it was sent to",
    "settled": "what was acknowledged a second before a crash, or in a transaction, does not come again",
    "flagged": "what was delivered before and comes again says so",
    "order": "a publisher's messages first come in its order",
    "fan-out": "a message is in all of its queues or in none",
    "transactions": "transactions of publishes and acknowledgements are whole, or never were",
    "delays": "no delayed message comes before its time",
    "dead letters": "a dead letter is in exactly one place, with the reason",
    "clients": "every client got its work done",
}


def judge(ledger: QueueLedger, layout: Layout, left: Mapping[str, int]) -> Verdict:
    """`left`: queues that were not emptied, with how many messages are in them."""
    verdict = Verdict(PROMISES)
    checks = verdict.checks
    last = {queue: ledger.came_last(queue) for queue in layout.queues}
    for queue in layout.queues:
        deliveries = ledger.deliveries.get(queue, [])
        _judge_names(ledger, layout, deliveries, checks["whole"])
        _judge_repeats(ledger, deliveries, checks)
        if queue in layout.ordered:
            _judge_order(ledger, deliveries, checks["order"])
        _judge_due(ledger, deliveries, checks["delays"])
        if queue in left:
            _judge_count(ledger, queue, last[queue], left[queue], checks["present"])
    missing = set(outstanding(ledger, layout, left))
    for name, sent in ledger.sent.items():
        for queue in sent.queues:
            if sent.confirmed and queue not in left:
                gone = (queue, name) in missing
                checks["present"](not gone, lambda: f"{name} is lost from {queue}")  # noqa: B023
    _judge_fan_out(ledger, last, left, checks["fan-out"])
    _judge_works(ledger, last, left, checks["transactions"])
    _judge_dead(ledger, layout, last, left, checks["dead letters"])
    _judge_sessions(ledger, checks["clients"])
    checks["whole"].wrong.extend(ledger.damaged)
    checks["clients"].wrong.extend(ledger.remarks)
    return verdict


def outstanding(ledger: QueueLedger, layout: Layout, left: Mapping[str, int]) -> Iterator[tuple[str, Name]]:
    """Confirmed messages that nobody has taken and settled yet, in queues that are being emptied."""
    last = {queue: ledger.came_last(queue) for queue in layout.queues}
    for name, sent in list(ledger.sent.items()):
        if not sent.confirmed:
            continue
        for queue in sent.queues:
            if queue in left:
                continue
            came = last[queue].get(name)
            if queue in layout.unattended or (came is not None and came.fate is Fate.REJECTED):
                came = last[layout.dead_letters[queue]].get(name)
            if came is None or not _is_settled(came):
                yield queue, name


def _is_settled(delivery: Delivery) -> bool:
    """By its consumer, as far as that knows."""
    if delivery.fate is Fate.IN_WORK:
        return delivery.work is not None and delivery.work.outcome in (Outcome.COMMITTED, Outcome.UNKNOWN)
    return delivery.fate in (Fate.ACKED, Fate.REJECTED)


def _is_over(ledger: QueueLedger, session: Session, now_s: float) -> bool:
    """What it held is in the queue again."""
    strike_s = ledger.strike_on(session)
    return session.closed or (strike_s is not None and strike_s <= now_s)


def is_final(ledger: QueueLedger, delivery: Delivery) -> bool:
    """What its consumer did with it outlives any crash, as promised."""
    session = delivery.session
    if delivery.fate is Fate.IN_WORK:
        return delivery.work is not None and delivery.work.outcome is Outcome.COMMITTED
    if delivery.fate is Fate.ACKED and (session.closed or delivery.number < session.answered):
        return True
    if delivery.fate in (Fate.ACKED, Fate.REJECTED):
        after_s = next((at_s for at_s in ledger.strikes if at_s >= delivery.settled_s), None)
        strike_s = after_s if session.closed else ledger.strike_on(session)
        if strike_s is None:
            return True
        # How long a rejected one takes to become a dead letter, nobody has promised.
        return delivery.fate is Fate.ACKED and delivery.settled_s < strike_s - ACK_S
    return False


# --- promise by promise ------------------------------------------------------------------------


def _judge_names(ledger: QueueLedger, layout: Layout, deliveries: Sequence[Delivery], whole: Check) -> None:
    for one in deliveries:
        sent = ledger.sent.get(one.name)
        places = sent.queues if sent is not None else ()
        places += tuple(layout.dead_letters[queue] for queue in places if queue in layout.dead_letters)
        whole(one.queue in places, lambda: f"{one.name} came from {one.queue}, but was sent to {places}")  # noqa: B023


def _judge_repeats(ledger: QueueLedger, deliveries: Sequence[Delivery], checks: Mapping[str, Check]) -> None:
    by_name: dict[Name, list[Delivery]] = {}
    for one in deliveries:
        by_name.setdefault(one.name, []).append(one)
    for name, times in by_name.items():
        checks["settled"].checked += 1
        for before, after in pairwise(times):
            what = f"{name} in {after.queue}, {before.fate.value}"
            checks["flagged"](after.again, lambda: f"{what}, came again without a flag")  # noqa: B023
            if before.session is after.session:
                right = before.fate is Fate.REQUEUED
            else:
                right = _is_over(ledger, before.session, after.at_s) and not is_final(ledger, before)
            if not right:
                checks["settled"].wrong.append(f"{what} {_ago(ledger, before)}, came again")


def _ago(ledger: QueueLedger, delivery: Delivery) -> str:
    strike_s = ledger.strike_on(delivery.session)
    if strike_s is None or not delivery.settled_s:
        return "while nothing was struck"
    return f"{strike_s - delivery.settled_s:.2f} s before the crash"


def _judge_order(ledger: QueueLedger, deliveries: Sequence[Delivery], order: Check) -> None:
    """By first appearance, for each publisher and priority."""
    seen: set[Name] = set()
    highest: dict[tuple[str, int], int] = {}
    for one in deliveries:
        sent = ledger.sent.get(one.name)
        if sent is None or one.name in seen:
            continue
        seen.add(one.name)
        writer, number = one.name
        before = highest.get((writer, sent.priority), -1)
        order(number > before, lambda: f"{one.name} came from {one.queue} after {before}")  # noqa: B023
        highest[writer, sent.priority] = max(before, number)


def _judge_due(ledger: QueueLedger, deliveries: Sequence[Delivery], in_time: Check) -> None:
    for one in deliveries:
        sent = ledger.sent.get(one.name)
        if sent is not None and sent.due_ms:
            early_ms = sent.due_ms - one.at_ms
            in_time(early_ms <= 0, lambda: f"{one.name} came {early_ms} ms early")  # noqa: B023


def _judge_count(
    ledger: QueueLedger, queue: str, last: Mapping[Name, Delivery], count: int, present: Check
) -> None:
    """Nobody looked into this queue; but so many must be there, and so many can."""
    least = most = 0
    for name, sent in ledger.sent.items():
        if queue not in sent.queues or sent.taken_back:
            continue
        came = last.get(name)
        if came is None or not _is_settled(came):
            least += sent.confirmed or came is not None
            most += 1
        elif not is_final(ledger, came):
            most += 1
    present(least <= count <= most, lambda: f"{queue} has {count} messages; {least} to {most} can be there")


def _judge_fan_out(
    ledger: QueueLedger,
    last: Mapping[str, Mapping[Name, Delivery]],
    left: Mapping[str, int],
    whole: Check,
) -> None:
    for name, sent in ledger.sent.items():
        if len(sent.queues) > 1 and not any(queue in left for queue in sent.queues):
            there = [queue for queue in sent.queues if name in last[queue]]
            whole(len(there) in (0, len(sent.queues)), lambda: f"{name} is in {there} only")  # noqa: B023


def _judge_works(
    ledger: QueueLedger,
    last: Mapping[str, Mapping[Name, Delivery]],
    left: Mapping[str, int],
    whole: Check,
) -> None:
    for work in ledger.works:
        places = [(name, queue) for name in work.names for queue in ledger.sent[name].queues]
        sources = [one.queue for one in work.taken]
        if not places or any(queue in left for queue in [*sources, *(queue for _, queue in places)]):
            continue
        there = [name in last[queue] for name, queue in places]
        outcome = work.outcome
        happened = all(there)
        right = {
            Outcome.COMMITTED: happened,
            Outcome.ABORTED: not any(there),
            Outcome.UNKNOWN: happened or not any(there),
            Outcome.OPEN: False,
        }[outcome]
        what = f"{work.names[0]} to {work.names[-1]}, {outcome.value}"
        whole(right, lambda: f"{what}: {sum(there)} of {len(there)} are there")  # noqa: B023
        for taken in work.taken if outcome is not Outcome.ABORTED else ():
            came_again = last[taken.queue][taken.name] is not taken
            whole(
                came_again != happened,
                lambda: f"{what}: {taken.name} came {'again' if came_again else 'never again'}",  # noqa: B023
            )


def _judge_dead(
    ledger: QueueLedger,
    layout: Layout,
    last: Mapping[str, Mapping[Name, Delivery]],
    left: Mapping[str, int],
    once: Check,
) -> None:
    for queue, target in layout.dead_letters.items():
        if queue in left or target in left:
            continue
        reason = "expired" if queue in layout.unattended else "rejected"
        for name, sent in ledger.sent.items():
            if queue in sent.queues:
                dead = last[target].get(name)
                wrong = _wrong_end(sent, last[queue].get(name), dead, queue in layout.unattended)
                once(not wrong, lambda: f"{name} of {queue} {wrong}")  # noqa: B023
                if dead is not None:
                    deaths = dead.deaths
                    right = deaths == ((queue, reason, 1),)
                    once(right, lambda: f"{name} died as {deaths} in {queue}, {reason}")  # noqa: B023


def _wrong_end(sent: Sent, came: Delivery | None, dead: Delivery | None, unattended: bool) -> str:
    if unattended:
        return "has expired, and is nowhere" if sent.confirmed and dead is None else ""
    rejected = came is not None and came.fate is Fate.REJECTED
    if rejected and dead is None:
        return "was rejected, and is nowhere"
    if dead is not None and not rejected:
        return f"is a dead letter, and was {came.fate.value if came is not None else 'never delivered'}"
    return ""


def _judge_sessions(ledger: QueueLedger, fine: Check) -> None:
    for session in ledger.sessions:
        lost_s = session.lost_s
        struck_s = ledger.strike_on(session)
        right = lost_s is None or (struck_s is not None and struck_s <= lost_s)
        fine(right, lambda: f"{session.client} lost its connection for no reason: {session.why}")  # noqa: B023
