import pytest

from mainstem.cli.when import When, find_offsets, parse_when
from mainstem.client import TopicPartition
from mainstem.client.cluster import OffsetAt
from mainstem.model.errors import InvalidRequest

NOW_MS = 1_700_000_000_000
PLACE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("earliest", When(edge="earliest")),
        (" Latest ", When(edge="latest")),
        ("0", When(offset=0)),
        ("1234", When(offset=1234)),
        ("+5", When(shift=5)),
        ("-5", When(shift=-5)),
        ("10m ago", When(time_ms=NOW_MS - 600_000)),
        ("1.5h ago", When(time_ms=NOW_MS - 5_400_000)),
        ("250ms ago", When(time_ms=NOW_MS - 250)),
        ("2w ago", When(time_ms=NOW_MS - 1_209_600_000)),
        ("10m", When(time_ms=NOW_MS - 600_000)),
        ("10 minutes ago", When(time_ms=NOW_MS - 600_000)),
        ("2023-11-14T22:13:20+00:00", When(time_ms=NOW_MS)),
        ("2023-11-14 23:13:20.500+01:00", When(time_ms=NOW_MS + 500)),
    ],
)
def test_places_are_read_as_people_say_them(text, when):
    assert parse_when(text, NOW_MS) == when


@pytest.mark.parametrize("text", ["", "soon", "10x ago", "ago", "1.5", "--5", "2023-13-01"])
def test_what_is_no_place_is_refused_with_what_is(text):
    with pytest.raises(InvalidRequest, match="'10m ago'"):
        parse_when(text, NOW_MS)


class FakeClient:
    """A partition that holds offsets 10 to 19; record n was written at time n."""

    def bounds(self, _topics):
        return {PLACE: (10, 20)}

    def offsets(self, times_ms):
        return {
            place: OffsetAt(max(10, time_ms) if time_ms < 20 else -1, 0)
            for place, time_ms in times_ms.items()
        }


@pytest.mark.parametrize(
    ("when", "offset"),
    [
        (When(edge="earliest"), 10),
        (When(edge="latest"), 20),
        (When(offset=15), 15),
        (When(offset=3), 10),
        (When(offset=99), 20),
        (When(shift=-2), 13),
        (When(shift=2), 17),
        (When(shift=-99), 10),
        (When(time_ms=17), 17),
        (When(time_ms=5), 10),
        (When(time_ms=25), 20),
    ],
)
def test_an_offset_is_found_within_what_the_partition_holds(when, offset):
    assert find_offsets(FakeClient(), [PLACE], when, {PLACE: 15}) == {PLACE: offset}


def test_without_a_group_a_shift_counts_from_the_end():
    assert find_offsets(FakeClient(), [PLACE], When(shift=-3)) == {PLACE: 17}
