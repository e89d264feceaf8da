"""Topics and lakes that built-in jobs read are looked for before Spark starts."""

from pathlib import Path

import pytest

from mainstem.pipeline.checking import Surroundings, check
from mainstem.pipeline.loading import load
from mainstem.pipeline.parts import PipelineErrors
from mainstem.pipeline.validating import validate

LAKE = "CREATE JOB a USING lake WITH (path = 'x', topic = '{}');\n"
MIRROR = "CREATE JOB m USING mirror WITH (from = 'far:9092', {});"
SYNC = "CREATE JOB s USING sync WITH (topic = 'rows', table = 't', url = 'postgresql://me@db/x', {});"


@pytest.fixture
def mistakes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def found(text: str, *topics: str) -> list[str]:
        Path("shop.sql").write_text(text)
        try:
            pipeline = load([Path("shop.sql")])
            checked = validate(pipeline, None)
            check(pipeline, Surroundings(checked.columns, frozenset(topics)))
        except PipelineErrors as errors:
            return [str(error) for error in errors.all]
        return []

    return found


@pytest.mark.parametrize(
    "text",
    [
        LAKE.format("ordrs"),
        LAKE.format("orders, ordrs"),
        "CREATE JOB a USING stats WITH (window = '5 seconds', topic = 'ordrs');",
        "CREATE JOB s USING sync WITH (topic = 'ordrs', table = 't', url = 'postgresql://me@db/x');",
    ],
)
def test_a_topic_that_a_job_reads_must_be_there(mistakes, text):
    at = text.index("topic = ") + 1
    assert mistakes(text, "orders") == [
        f"shop.sql:1:{at}: the broker has no topic 'ordrs'; did you mean 'orders'?"
    ]
    assert mistakes(text, "orders", "ordrs") == []


def test_a_topic_like_no_other_can_be_made(mistakes):
    (told,) = mistakes(LAKE.format("visits"), "orders")
    assert told.endswith("the broker has no topic 'visits'; make it with: mainstem topic create visits")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE JOB a USING lake WITH (path = 'x', pattern = 'ord.*');",
        "CREATE JOB a USING stats WITH (into = 'x', pattern = 'ord.*');",
        MIRROR.format("topics = 'there'"),
        SYNC.format("direction = 'from', column = 'id'"),
        LAKE.format("orders") + "CREATE JOB r USING replay WITH (path = 'x', topic = 'again');",
    ],
)
def test_topics_of_patterns_of_others_and_of_its_own_need_not_be_there(mistakes, text):
    assert mistakes(text, "orders") == []


@pytest.mark.parametrize(
    ("topic", "made_by"),
    [
        ("rows", SYNC.format("direction = 'from', column = 'id'")),
        ("orders", MIRROR.format("topics = 'orders'")),
        ("eu-orders", MIRROR.format("topics = 'orders', prefix = 'eu-'")),
        ("eu-orders", MIRROR.format("pattern = '(?i)ORD.*', prefix = 'eu-'")),
        ("far", MIRROR.format("topics = 'orders', rename = 'orders=far'")),
        ("orders-stats", "CREATE JOB t USING stats WITH (topic = 'orders');"),
        ("again", "CREATE JOB r USING replay WITH (path = 'x', topic = 'again');"),
        ("orders.again", "CREATE JOB r USING replay WITH (path = 'x', topic = '{topic}.again');"),
        ("made", "CREATE STREAM s WITH (topic = 'made') AS SELECT id FROM o;"),
        ("put", "CREATE STREAM p (id INT) WITH (topic = 'put'); INSERT INTO p SELECT id FROM o;"),
    ],
)
def test_a_topic_that_another_part_writes_counts_as_there(mistakes, topic, made_by):
    source = "CREATE STREAM o (id INT) WITH (topic = 'orders');"
    if topic == "orders":
        source = ""  # a stream starts before the mirror does
    assert mistakes(LAKE.format(topic) + source + made_by, *(["orders"] if source else [])) == []
    (told,) = mistakes(LAKE.format("visits") + source + made_by, *(["orders"] if source else []))
    assert "the broker has no topic 'visits'" in told


def test_a_mirror_makes_only_what_it_copies(mistakes):
    text = LAKE.format("orders") + MIRROR.format("topics = 'orders', prefix = 'eu-'")
    assert "no topic 'orders'" in mistakes(text)[0]


def test_wrong_options_of_a_job_bring_no_doubt_about_topics(mistakes):
    (told,) = mistakes(LAKE.format("orders") + MIRROR.format("prefix = 'eu-'"))
    assert "give topics or pattern" in told
    (told,) = mistakes("CREATE JOB s USING sync WITH (table = 't');")
    assert "sync needs topic" in told


def test_a_lake_that_is_replayed_must_be_there(mistakes, tmp_path):
    text = "CREATE JOB r USING replay WITH (topic = 'again', path = 'lake/ordrs');"
    (told,) = mistakes(text)
    folder = tmp_path / "lake" / "ordrs"
    assert told == f"shop.sql:1:50: {folder} is not a lake: the job lake has written nothing there"
    other = "CREATE JOB a USING lake WITH (topic = 'orders', path = './lake/{}/');"
    assert "; did you mean './lake/orders/'?" in mistakes(text + other.format("orders"), "orders")[0]
    assert mistakes(text + other.format("ordrs"), "orders") == []
    folder.mkdir(parents=True)
    assert len(mistakes(text)) == 1
    (folder / "_lake").mkdir()
    (folder / "_lake" / "state.json").write_text("{}")
    assert mistakes(text) == []
