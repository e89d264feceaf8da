from mainstem.pipeline.counting import MOST_BATCHES, Tally, added


def test_a_figure_is_told_once_as_a_number_comes_again_while_there_is_nothing_to_do():
    tally = Tally()
    tally.wrote(3, 17)
    tally.wrote(4, 0)
    assert (tally.take(3), tally.take(3), tally.take(4), tally.take(5)) == (17, None, 0, None)


def test_figures_that_nobody_asks_for_are_forgotten_the_oldest_first():
    tally = Tally()
    for batch in range(MOST_BATCHES + 2):
        tally.wrote(batch, batch)
    assert (tally.take(1), tally.take(2)) == (None, 2)


def test_a_sum_is_unknown_if_a_part_of_it_is():
    assert (added(3, 4), added(3, -1), added(-1, 4)) == (7, -1, -1)
