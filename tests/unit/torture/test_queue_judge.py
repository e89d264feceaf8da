"""The judge of queues sees every kind of loss: each test breaks one promise in a sound history."""

from __future__ import annotations

import pytest

from mainstem.torture.ledger import Outcome
from mainstem.torture.queue_judge import judge, outstanding
from mainstem.torture.queue_ledger import Delivery, Fate, Layout, QueueLedger, Sent, Session, Work

LAYOUT = Layout(
    ("plain", "strict", "brief", "dead", "copy", "out"),
    ordered=frozenset({"plain"}),
    dead_letters={"strict": "dead", "brief": "dead"},
    unattended=frozenset({"brief"}),
)
STRIKE_S = 100.0


class History:
    """A ledger with one strike, and a session of one consumer on either side of it."""

    def __init__(self) -> None:
        self.ledger = QueueLedger(strikes=[STRIKE_S])
        self.before = Session("consumer", 90.0, lost_s=100.01, why="reset")
        self.after = Session("consumer", 101.0)
        self.ledger.sessions = [self.before, self.after]
        self.left: dict[str, int] = {}

    def sent(self, number: int, *queues: str, confirmed: bool = True, **more: int) -> None:
        self.ledger.sent["writer", number] = Sent(queues, confirmed=confirmed, **more)

    def came(
        self,
        queue: str,
        number: int,
        at_s: float,
        fate: Fate = Fate.ACKED,
        again: bool = False,
        deaths: tuple[tuple[str, str, int], ...] = (),
    ) -> Delivery:
        session = self.before if at_s < STRIKE_S else self.after
        name = ("writer", number)
        one = Delivery(queue, name, again, at_s, int(at_s * 1000), session, deaths)
        if fate is not Fate.HELD:
            one.settle(fate, at_s)
        self.ledger.deliveries.setdefault(queue, []).append(one)
        return one

    def broken(self) -> set[str]:
        verdict = judge(self.ledger, LAYOUT, self.left)
        assert verdict.is_good == (not verdict.findings())
        return {name for name, check in verdict.checks.items() if check.wrong}


@pytest.fixture
def history() -> History:
    """Three messages of which the second is held at the strike and comes again; one goes to two queues."""
    history = History()
    for number in range(3):
        history.sent(number, "plain")
    history.sent(3, "plain", "copy")
    history.came("plain", 0, 91.0)
    history.came("plain", 1, 92.0, Fate.HELD)
    history.came("plain", 1, 102.0, again=True)
    history.came("plain", 2, 102.0, again=True)
    history.came("plain", 3, 102.0)
    history.came("copy", 3, 102.0)
    return history


def test_a_sound_history_is_found_sound(history: History) -> None:
    assert history.broken() == set()


def test_a_confirmed_message_that_never_came_is_lost(history: History) -> None:
    history.sent(4, "plain")
    assert history.broken() == {"present"}
    assert list(outstanding(history.ledger, LAYOUT, {})) == [("plain", ("writer", 4))]


def test_a_message_that_nobody_confirmed_may_be_lost(history: History) -> None:
    history.sent(4, "plain", confirmed=False)
    assert history.broken() == set()


def test_a_message_held_at_the_strike_must_come_again(history: History) -> None:
    history.sent(4, "copy")
    history.came("copy", 4, 95.0, Fate.HELD)
    assert history.broken() == {"present"}


def test_a_message_that_nobody_sent_is_seen(history: History) -> None:
    history.came("plain", 9, 103.0)
    assert history.broken() == {"whole"}


def test_a_message_in_a_queue_it_was_not_sent_to_is_seen(history: History) -> None:
    history.came("out", 0, 103.0)
    assert history.broken() == {"whole"}


def test_an_acknowledged_message_may_come_again_if_the_strike_followed_at_once(history: History) -> None:
    history.sent(4, "copy")
    history.came("copy", 4, 99.5)
    history.came("copy", 4, 102.0, again=True)
    assert history.broken() == set()


def test_a_message_acknowledged_a_second_before_does_not_come_again(history: History) -> None:
    history.sent(4, "copy")
    history.came("copy", 4, 98.5)
    history.came("copy", 4, 102.0, again=True)
    assert history.broken() == {"settled"}


def test_an_acknowledgement_before_an_answer_holds_at_once(history: History) -> None:
    history.sent(4, "copy")
    history.came("copy", 4, 99.9)
    history.before.answered = history.before.settled
    history.came("copy", 4, 102.0, again=True)
    assert history.broken() == {"settled"}


def test_a_repeated_message_without_the_flag_is_seen(history: History) -> None:
    history.sent(4, "copy")
    history.came("copy", 4, 99.5, Fate.HELD)
    history.came("copy", 4, 102.0)
    assert history.broken() == {"flagged"}


def test_a_message_does_not_come_twice_on_one_connection(history: History) -> None:
    history.sent(4, "copy")
    history.came("copy", 4, 102.0, Fate.HELD)
    history.came("copy", 4, 103.0, again=True)
    assert history.broken() == {"settled"}


def test_a_message_that_was_given_back_comes_again_on_one_connection(history: History) -> None:
    history.sent(4, "copy")
    history.came("copy", 4, 102.0, Fate.REQUEUED)
    history.came("copy", 4, 103.0, again=True)
    assert history.broken() == set()


def test_a_message_held_by_an_open_connection_goes_to_no_other(history: History) -> None:
    history.sent(4, "copy")
    history.came("copy", 4, 102.0, Fate.HELD)
    other = history.came("copy", 4, 103.0, again=True)
    other.session = Session("other", 102.5)
    assert history.broken() == {"settled"}


def test_a_connection_that_was_closed_gives_back_what_it_held(history: History) -> None:
    history.sent(4, "copy")
    history.came("copy", 4, 102.0, Fate.HELD)
    history.after.closed = True
    other = history.came("copy", 4, 103.0, again=True)
    other.session = Session("other", 102.5)
    assert history.broken() == set()


def test_a_later_message_before_an_earlier_one_is_out_of_order(history: History) -> None:
    history.sent(4, "plain")
    history.sent(5, "plain")
    history.came("plain", 5, 103.0)
    history.came("plain", 4, 103.0)
    assert history.broken() == {"order"}


def test_priorities_have_an_order_of_their_own(history: History) -> None:
    history.sent(4, "plain")
    history.sent(5, "plain", priority=2)
    history.came("plain", 5, 103.0)
    history.came("plain", 4, 103.0)
    assert history.broken() == set()


def test_a_message_in_some_of_its_queues_only_is_seen(history: History) -> None:
    history.sent(4, "plain", "copy", confirmed=False)
    history.came("plain", 4, 103.0)
    assert history.broken() == {"fan-out"}


def test_a_delayed_message_that_comes_early_is_seen(history: History) -> None:
    history.sent(4, "copy", due_ms=103_000)
    history.came("copy", 4, 102.999)
    assert history.broken() == {"delays"}


# --- queues that were left as they are ---------------------------------------------------------


def test_a_queue_that_was_left_has_what_nobody_took(history: History) -> None:
    history.sent(4, "copy")
    history.sent(5, "copy", confirmed=False)
    for count, broken in ((0, {"present"}), (1, set()), (2, set()), (3, {"present"})):
        history.left = {"copy": count}
        assert history.broken() == broken


# --- dead letters ------------------------------------------------------------------------------


def rejected(history: History, number: int = 4) -> None:
    history.sent(number, "strict")
    history.came("strict", number, 102.0, Fate.REJECTED)


def test_a_rejected_message_is_a_dead_letter_with_its_reason(history: History) -> None:
    rejected(history)
    history.came("dead", 4, 103.0, deaths=(("strict", "rejected", 1),))
    assert history.broken() == set()


def test_a_rejected_message_that_is_nowhere_is_lost(history: History) -> None:
    rejected(history)
    assert history.broken() == {"present", "dead letters"}


def test_a_dead_letter_that_was_held_at_the_strike_must_come_again(history: History) -> None:
    history.sent(4, "strict")
    history.came("strict", 4, 91.0, Fate.REJECTED)
    history.came("dead", 4, 92.0, Fate.HELD, deaths=(("strict", "rejected", 1),))
    assert history.broken() == {"present"}


def test_a_dead_letter_that_was_acknowledged_in_its_old_queue_was_in_two_places(history: History) -> None:
    history.sent(4, "strict")
    history.came("strict", 4, 99.5, Fate.REJECTED)
    history.came("strict", 4, 102.0, again=True)
    history.came("dead", 4, 103.0, deaths=(("strict", "rejected", 1),))
    assert history.broken() == {"dead letters"}


def test_a_dead_letter_with_another_reason_is_seen(history: History) -> None:
    rejected(history)
    history.came("dead", 4, 103.0, deaths=(("strict", "rejected", 2),))
    assert history.broken() == {"dead letters"}


def test_a_message_that_nobody_takes_expires_and_is_a_dead_letter(history: History) -> None:
    history.sent(4, "brief")
    assert history.broken() == {"present", "dead letters"}
    history.came("dead", 4, 103.0, deaths=(("brief", "expired", 1),))
    assert history.broken() == set()


# --- transactions ------------------------------------------------------------------------------


def passed_on(history: History, outcome: Outcome, at_s: float = 99.0) -> Work:
    """Message 4 is taken, and 10 and 11 are published, in a transaction."""
    history.sent(4, "copy")
    taken = history.came("copy", 4, at_s, Fate.IN_WORK)
    for number in (10, 11):
        history.sent(number, "out", confirmed=outcome is Outcome.COMMITTED)
    work = Work([("writer", 10), ("writer", 11)], [taken], outcome)
    taken.work = work
    history.ledger.works.append(work)
    return work


@pytest.mark.parametrize(
    ("outcome", "there", "broken"),
    [
        (Outcome.COMMITTED, (10, 11), set()),
        (Outcome.COMMITTED, (10,), {"present", "transactions"}),
        (Outcome.UNKNOWN, (10, 11), set()),
        (Outcome.UNKNOWN, (10,), {"transactions"}),
        (Outcome.UNKNOWN, (), {"transactions"}),  # what it took did not come again
        (Outcome.OPEN, (10, 11), {"present", "transactions"}),
    ],
)
def test_a_transaction_happens_whole_or_not_at_all(
    history: History, outcome: Outcome, there: tuple[int, ...], broken: set[str]
) -> None:
    passed_on(history, outcome)
    for number in there:
        history.came("out", number, 103.0)
    assert history.broken() == broken


def test_what_a_transaction_took_that_never_was_comes_again(history: History) -> None:
    passed_on(history, Outcome.UNKNOWN)
    history.came("copy", 4, 102.0, again=True)
    assert history.broken() == set()


def test_what_a_transaction_took_does_not_come_again(history: History) -> None:
    passed_on(history, Outcome.UNKNOWN)
    history.came("copy", 4, 102.0, again=True)
    for number in (10, 11):
        history.came("out", number, 103.0)
    assert history.broken() == {"transactions"}


def test_a_committed_acknowledgement_holds_at_once(history: History) -> None:
    passed_on(history, Outcome.COMMITTED, at_s=99.99)
    history.came("copy", 4, 102.0, again=True)
    for number in (10, 11):
        history.came("out", number, 103.0)
    assert history.broken() == {"settled", "transactions"}


def test_a_transaction_that_was_rolled_back_shows_nothing(history: History) -> None:
    history.sent(10, "out", confirmed=False)
    history.ledger.works.append(Work([("writer", 10)], [], Outcome.ABORTED))
    assert history.broken() == set()
    history.came("out", 10, 103.0)
    assert history.broken() == {"transactions"}


# --- clients -----------------------------------------------------------------------------------


def test_a_connection_that_is_lost_without_a_strike_is_a_finding(history: History) -> None:
    history.after.lost_s = 105.0
    assert history.broken() == {"clients"}


def test_what_clients_remark_is_a_finding(history: History) -> None:
    history.ledger.remarks.append("gave up")
    assert history.broken() == {"clients"}
