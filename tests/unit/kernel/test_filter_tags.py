import pytest

from mainstem.kernel.filters.tags import TagFilter
from mainstem.model.errors import InvalidRequest


@pytest.mark.parametrize(
    ("expression", "passing", "stopped"),
    [
        ("*", ["a", "", None, "*"], []),
        ("", ["a", None], []),
        ("  ", ["a", None], []),
        ("a", ["a"], ["b", "A", "", "a ", None]),
        ("a || b", ["a", "b"], ["c", "a || b", None]),
        ("a||b ||  c d", ["a", "b", "c d"], ["c", "d"]),
        ("a || *", ["a", "b", None], []),
        ("a|b", ["a|b"], ["a", "b"]),
        ("a || a", ["a"], ["b"]),
    ],
)
def test_tags(expression, passing, stopped):
    tags = TagFilter(expression)
    assert [tag for tag in passing if not tags.matches(tag)] == []
    assert [tag for tag in stopped if tags.matches(tag)] == []


@pytest.mark.parametrize("expression", ["||", "a ||", "|| a", "a || || b"])
def test_a_missing_tag_is_an_error(expression):
    with pytest.raises(InvalidRequest, match="missing"):
        TagFilter(expression)


def test_a_filter_has_a_bounded_size():
    assert len(TagFilter("||".join(map(str, range(1000)))).tags) == 1000
    with pytest.raises(InvalidRequest, match="1000 tags"):
        TagFilter("||".join(map(str, range(1001))))
    with pytest.raises(InvalidRequest, match="characters"):
        TagFilter("a" * 16_385)
