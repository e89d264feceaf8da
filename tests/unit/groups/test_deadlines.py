from mainstem.kernel.groups.deadlines import Deadlines


def test_the_earliest_deadline_is_next_and_due_takes_it():
    deadlines: Deadlines[str] = Deadlines()
    assert deadlines.next_ms() is None
    deadlines.set("a", 30)
    deadlines.set("b", 10)
    assert deadlines.next_ms() == 10
    assert deadlines.due(9) == []
    assert deadlines.due(30) == ["b", "a"]
    assert deadlines.next_ms() is None


def test_a_deadline_moves_both_ways():
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.set("a", 50)
    assert deadlines.due(49) == []
    deadlines.set("a", 20)
    assert deadlines.next_ms() == 20
    assert deadlines.due(20) == ["a"]
    assert deadlines.due(99) == []


def test_a_cleared_deadline_does_not_fire_and_can_be_set_again():
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.clear("a")
    assert deadlines.due(99) == []
    deadlines.set("a", 10)
    deadlines.clear("a")
    deadlines.set("a", 15)
    assert deadlines.due(15) == ["a"]


def test_moving_a_deadline_later_does_not_grow_the_heap():
    deadlines: Deadlines[str] = Deadlines()
    for at_ms in range(1000):
        deadlines.set("a", at_ms)
    assert len(deadlines._heap) == 1


def test_what_is_cleared_does_not_stay_on_the_heap_until_its_time_has_come():
    deadlines: Deadlines[str] = Deadlines()
    for number in range(3):
        deadlines.set(f"kept-{number}", 50 - number)
    for number in range(1000):
        deadlines.set(f"gone-{number}", 1000 + number)
        deadlines.clear(f"gone-{number}")
    assert len(deadlines._heap) <= 6
    deadlines.set("kept-0", 60)
    assert deadlines.due(99) == ["kept-2", "kept-1", "kept-0"]
    assert not deadlines._heap
