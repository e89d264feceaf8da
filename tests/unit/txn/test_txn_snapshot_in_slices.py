"""A snapshot of transactional ids is written while they change, and a replay of the changes follows it."""

from mainstem.kernel.txn.coordinator import TransactionCoordinator
from mainstem.kernel.txn.deltas import CoordinatorDelta, TxnAdded, TxnEnded, TxnForgotten, TxnInitialised


def initialised(name: str, epoch: int) -> TxnInitialised:
    return TxnInitialised(name, 1, epoch, -1, -1, 60_000, 0)


def rebuilt(deltas: list[CoordinatorDelta]) -> list[CoordinatorDelta]:
    coordinator = TransactionCoordinator()
    for delta in deltas:
        coordinator.apply(delta)
    return list(coordinator.dump())


def test_ids_that_end_are_forgotten_or_come_between_slices_are_replayed_to_the_same_state():
    live = TransactionCoordinator()
    for delta in (initialised("a", 0), initialised("b", 0), TxnAdded("a", [5], ["g"], 10)):
        live.apply(delta)
    dump = live.dump()
    first = next(dump)
    after: list[CoordinatorDelta] = [
        TxnEnded("a", True, 1, 0, -1, -1, 20),
        TxnAdded("a", [6], [], 30),
        TxnEnded("b", False, 1, 0, -1, -1, 30),
        TxnForgotten("b"),
        initialised("c", 0),
    ]
    for delta in after:
        live.apply(delta)
    assert rebuilt([first, *dump, *after]) == list(live.dump())


def test_deltas_that_the_snapshot_already_holds_change_nothing():
    history: list[CoordinatorDelta] = [
        initialised("a", 0),
        TxnAdded("a", [5], [], 10),
        TxnEnded("a", False, 1, 1, 1, 0, 20),
        TxnAdded("a", [6], [], 30),
    ]
    snapshot = rebuilt(history)
    for covered in range(1, len(history)):
        assert rebuilt([*snapshot, *history[covered:]]) == snapshot
