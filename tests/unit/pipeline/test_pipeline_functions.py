"""A function that Spark has not is found before it starts; what may come from elsewhere is only doubted."""

from pathlib import Path

import pytest

from mainstem.pipeline import functions
from mainstem.pipeline.checking import Surroundings, check
from mainstem.pipeline.functions import Functions, spark_functions
from mainstem.pipeline.loading import load
from mainstem.pipeline.parts import PipelineErrors
from mainstem.pipeline.validating import validate

ORDERS = "CREATE STREAM orders (id BIGINT, amount DOUBLE, at TIMESTAMP) WITH (topic = 'orders');\n"


@pytest.fixture
def pipeline(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def made(select, python=""):
        text = f"{ORDERS}CREATE VIEW v AS SELECT\n  {select}\nFROM orders;\n"
        if python:
            Path("more.py").write_text(python)
            text += "IMPORT 'more.py';"
        Path("shop.sql").write_text(text)
        return load([Path("shop.sql")])

    return made


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("summ(amount) AS s", "shop.sql:3:3: there is no function 'summ'; did you mean 'sum'?"),
        (
            "id, date_trunk('day', at) AS d",
            "shop.sql:3:7: there is no function 'date_trunk'; did you mean 'date_trunc'?",
        ),
        ("strpos(string(id), '1') AS p", "shop.sql:3:3: there is no function 'strpos'"),  # another database's
        ("transform(array(id), e -> uper(e)) AS t", "shop.sql:3:29: there is no function 'uper'"),
        ("`cuont`(*) AS n", "shop.sql:3:3: there is no function 'cuont'; did you mean 'count'?"),
        ("x FROM range(3) LATERAL VIEW explodee(array(1)) t AS x; CREATE VIEW w AS SELECT id", "'explodee'"),
    ],
)
def test_a_misspelt_function_is_told_with_its_place_and_what_was_meant(pipeline, select, said):
    with pytest.raises(PipelineErrors) as errors:
        validate(pipeline(select), None)
    (told,) = (str(error) for error in errors.value.all)
    assert said in told


@pytest.mark.parametrize(
    "select",
    [
        "count(*) FILTER (WHERE id IN (1, 2)) AS a, COUNT ( DISTINCT id) AS b, `max`(id) AS c",
        "cast(id AS decimal(10, 2)) AS a, try_cast(id AS int) AS b, id::string AS c, int(id) AS d",
        "timestampadd(DAY, 1, at) AS a, timestampdiff(DAY, at, at) AS b, dateadd(DAY, 1, at) AS c",
        "extract(day FROM at) AS a, substring('abc' FROM 2) AS b, trim(BOTH 'x' FROM 'xa') AS c",
        "CASE WHEN id > 1 THEN if(id > 2, 1, 2) END AS a, date '2031-05-04' AS b, interval 1 day AS c",
        "row_number() OVER (PARTITION BY id ORDER BY at) AS a, first(id) IGNORE NULLS AS b",
        "transform(array(1), e -> e + 1) AS a, exists(array(1), e -> e > 1) AS b, struct(id) AS c",
        "window(at, '1 minute') AS a, session_window(at, '1 minute') AS b, named_struct('a', 1).a AS c",
        "current_date() AS a, current_timestamp AS b, left('abc', 2) AS c, collate('a', 'UTF8_LCASE') AS d",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY id) AS a, listagg(string(id), ',') AS b",
        "shop.discount(id) AS a, spark_catalog.shop.discount(id) AS b",  # of a catalog: nobody knows here
        "/*+ REBALANCE(orders), REPARTITION(3) */ id",
        "split('a,b', ',') AS a, concat('from', 'watermark') AS b, 'summ(1)' AS c",  # in quotes
    ],
)
def test_what_spark_can_run_is_not_refused(pipeline, select):
    assert validate(pipeline(select), None).doubts == ()


def test_functions_that_python_declares_are_known_and_others_are_only_doubted(pipeline):
    declares = "from mainstem.pipeline import function\n@function('double')\ndef Gross(x):\n    return x\n"
    checked = validate(pipeline("gross(amount) AS g, gros(amount) AS h", declares), None)
    assert [str(doubt) for doubt in checked.doubts] == [
        "shop.sql:3:23: there is no function 'gros'; did you mean 'gross'?"
    ]


def test_a_spark_that_may_have_more_functions_is_asked_itself(pipeline):
    shop = pipeline("st_distance(id, id) AS d")
    known = Functions(frozenset({"sum"}), may_have_more=True)
    (doubt,) = check(shop, Surroundings(functions=known)).doubts
    assert "'st_distance'" in str(doubt)
    with pytest.raises(PipelineErrors, match="st_distance"):
        check(shop, Surroundings(functions=Functions(known.names, may_have_more=False)))
    assert validate(shop, None, {"spark.sql.extensions": "org.example.Geo"}).doubts


def test_settings_that_bring_functions_are_found_in_the_defaults_too(tmp_path, monkeypatch):
    assert not spark_functions({"spark.sql.shuffle.partitions": "2"}).may_have_more
    (tmp_path / "spark-defaults.conf").write_text(
        "# of the cluster\n spark.sql.extensions  org.example.Geo\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert spark_functions({}).may_have_more


@pytest.mark.parametrize(
    ("installed", "more"),
    [("", False), ("4.0.1", False), ("4.3.7", False), ("4.4.0.dev1", True), ("5.0", True)],
)
def test_a_newer_spark_may_have_more_than_the_list(installed, more):
    assert spark_functions({}, installed).may_have_more is more


def test_the_list_is_sorted_and_names_its_version():
    head, *names = (Path(functions.__file__).parent / functions.LIST).read_text().splitlines()
    assert head.startswith("# Functions of Spark 4.")
    assert names == sorted(set(names))
    assert {"sum", "date_trunc", "from_json", "window"} <= set(names)
