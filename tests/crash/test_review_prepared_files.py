"""A power cut while a file is being changed for the next may leave two prepared files behind."""

from mainstem.kernel.log.log import LogOptions
from mainstem.testing.log_by_hand import LogByHand
from mainstem.testing.memory_disk import MemoryDisk

FOLDER = "/data"
OPTIONS = LogOptions(file_bytes=4096, file_frames=1000, reserve_bytes=512)


def deltas(hand: LogByHand) -> list[bytes]:
    return [payload for kind, _, payload in hand.replayed if kind == "delta"]


def test_two_prepared_files_are_used_in_their_order():
    disk = MemoryDisk(FOLDER)
    hand = LogByHand(disk, FOLDER, OPTIONS)
    hand.log.append_delta(1, b"first", None)
    hand.turn()
    # The writer has taken the next file, the one behind it is made, and the power goes before the seal.
    hand.log.files.take_next()
    hand.log.files.prepare_next(zero=False)

    hand = LogByHand(disk, FOLDER, OPTIONS)
    written = [b"first"]
    for number in range(12):
        written.append(b"%04d" % number * 250)
        hand.log.append_delta(1, written[-1], None)
        hand.turn()
        assert not hand.failures
        assert deltas(LogByHand(disk, FOLDER, OPTIONS)) == written
