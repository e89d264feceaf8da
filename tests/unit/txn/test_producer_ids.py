from mainstem.kernel.txn.deltas import ProducerIdsReserved
from mainstem.kernel.txn.ids import BLOCK_IDS, ProducerIds


def restarted(deltas):
    ids = ProducerIds()
    for delta in deltas:
        ids.apply(delta)
    return ids


def test_the_first_id_reserves_a_block_and_the_rest_of_it_is_free_once_synced():
    ids = ProducerIds()
    first, delta = ids.allocate()
    assert (first, delta) == (0, ProducerIdsReserved(BLOCK_IDS))
    ids.synced(delta)
    assert ids.allocate() == (1, None)


def test_each_id_carries_the_reservation_until_it_is_synced():
    ids = ProducerIds()
    _, delta = ids.allocate()
    ids.apply(delta)
    assert ids.allocate() == (1, delta)


def test_an_exhausted_block_reserves_the_next():
    ids = ProducerIds()
    _, delta = ids.allocate()
    ids.synced(delta)
    for _ in range(BLOCK_IDS - 1):
        assert ids.allocate()[1] is None
    assert ids.allocate() == (BLOCK_IDS, ProducerIdsReserved(2 * BLOCK_IDS))


def test_a_restart_skips_the_rest_of_the_block():
    ids = ProducerIds()
    _, delta = ids.allocate()
    again = restarted([delta])
    assert again.allocate() == (BLOCK_IDS, ProducerIdsReserved(2 * BLOCK_IDS))
    assert restarted(again.dump()).allocate()[0] == 2 * BLOCK_IDS


def test_nothing_is_dumped_before_the_first_id():
    assert list(ProducerIds().dump()) == []
