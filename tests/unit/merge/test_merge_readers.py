from __future__ import annotations

import threading

from merge_house import House

from mainstem.model.batch import read_header


def test_readers_on_other_threads_see_the_same_bytes_while_files_change_under_them(tmp_path):
    house = House(str(tmp_path))
    body = house.append(1, count=3)
    for at in range(60):
        house.append(at % 3, size=300)
    house.fan_out([1, 2, 3])
    house.link(0, body, first=1)
    want = {partition: list(house.model[partition]) for partition in range(3)}
    ends = {partition: house.ends[partition] for partition in range(3)}
    stop, wrong, rounds = threading.Event(), [], [0, 0]

    def read(number: int) -> None:
        try:
            while not stop.is_set():
                for partition, batches in want.items():
                    offset, found = 0, []
                    while offset < ends[partition]:
                        found += map(
                            bytes, house.log.read(partition, offset, 500, ends[partition], wait=True)
                        )
                        offset = read_header(found[-1]).last_offset + 1
                    assert found == batches
                rounds[number] += 1
        except BaseException as error:
            wrong.append(error)
            stop.set()

    readers = [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for reader in readers:
        reader.start()
    for turn in range(12):
        house.append(50 + turn)
        house.settle()
        house.work()
        before = list(rounds)
        while not stop.is_set() and any(now == then for now, then in zip(rounds, before, strict=True)):
            stop.wait(0.001)
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong
    house.check()
