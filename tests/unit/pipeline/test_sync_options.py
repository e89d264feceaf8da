"""What the options of sync refuse before Spark starts, and that no text shows a password."""

from pathlib import Path

import pytest

from mainstem.model.errors import InvalidRequest, NotSupported
from mainstem.pipeline.jobs import job_of
from mainstem.pipeline.jobs.sync_address import check_url, from_environment, hidden

JOB = job_of("sync")
PAGE = Path(__file__).parents[3] / "docs/pipelines/jobs-sync.md"
URL = "postgresql://alice@127.0.0.1/shop"


def check(**options):
    defaults = {option.name: option.default for option in JOB.options if option.default}
    JOB.check(
        defaults
        | {"topic": "t", "table": "t"}
        | {name.replace("_", "."): value for name, value in options.items()}
    )


def test_every_option_is_in_the_page():
    text = PAGE.read_text()
    assert [option.name for option in JOB.options if f"`{option.name}`" not in text] == []


def test_what_fits_is_taken():
    check(url=URL, key="id", schema="id BIGINT")
    check(url=URL, direction="from", column="id")
    check(jdbc_url="jdbc:x:y", jdbc_driver="x.Driver")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give url, of PostgreSQL, or jdbc.url"),
        ({"url": URL, "jdbc_url": "jdbc:x:y"}, "one of them"),
        ({"url": URL, "direction": "both"}, "direction is one of to, from"),
        ({"url": URL, "format": "xml"}, "format is one of"),
        ({"url": URL, "format": "csv"}, "schema is missing"),
        ({"url": URL, "max_records": "0"}, "max.records is a number from 1 on"),
        ({"url": URL, "deletes": "yes"}, "deletes is one of true, false"),
        ({"url": URL, "column": "id"}, "column is for direction = 'from'"),
        ({"url": URL, "direction": "from"}, "column is missing"),
        ({"url": URL, "direction": "from", "column": "id", "format": "csv"}, "rows become json"),
        ({"url": URL, "direction": "from", "column": "id", "state": "t"}, "needs a topic of its own"),
        ({"jdbc_url": "jdbc:x:y"}, "jdbc.driver is missing"),
        ({"url": "jdbc:postgresql://h/d"}, "for another database give jdbc.url"),
        ({"url": "postgre://h/d"}, "did you mean 'postgresql://'"),
        ({"url": "$NO_SUCH_VARIABLE"}, "there is no such variable"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(InvalidRequest, match=message.replace("$", r"\$")):
        check(**options)


def test_what_is_not_there_is_said():
    with pytest.raises(NotSupported, match="only added by JDBC"):
        check(jdbc_url="jdbc:x:y", jdbc_driver="x.Driver", key="id")
    with pytest.raises(NotSupported, match="from PostgreSQL only"):
        check(jdbc_url="jdbc:x:y", jdbc_driver="x.Driver", direction="from", column="id")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://alice:s3cret@host/db?nonsense=1",
        "postgresql://alice:s3cr%et@host/db",
        "postgres:/alice:s3cret@host:port/db",
        "postgresql://host/db?user=a&password=s3cret&nonsense=1",
    ],
)
def test_an_address_that_cannot_be_read_is_told_without_its_password(url):
    with pytest.raises(InvalidRequest) as error:
        check_url(url)
    assert "s3cr" not in str(error.value)


def test_passwords_are_hidden_wherever_they_stand():
    assert hidden("postgresql://alice:a@b:c@host/db") == "postgresql://alice:...@host/db"
    assert hidden("password={a;b c} x") == "password=... x"
    assert hidden("host=h password='a b' dbname=d") == "host=h password=... dbname=d"
    assert hidden("postgresql://alice@host/db") == "postgresql://alice@host/db"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("jdbc:sqlserver://db.shop:1433;user=a;password={s3;cret x}", "jdbc:sqlserver://db.shop:1433..."),
        ("jdbc:sqlserver://db;password = s3cret x", "jdbc:sqlserver://db..."),
        ("jdbc:mysql://host/db?user=a&secret=s3cret", "jdbc:mysql://host..."),
        ("jdbc:mysql://alice:12/s3cret@host/db", "jdbc:mysql..."),
        ("jdbc:oracle:thin:alice/s3cret@//host:1521/db", "jdbc:oracle..."),
        ("jdbc:oracle:thin:alice/s3cret", "jdbc:oracle..."),
        ("jdbc:derby:/data/db;password=s3cret", "jdbc:derby..."),
    ],
)
def test_of_an_address_for_jdbc_only_the_kind_and_the_host_are_told(url, told):
    assert hidden(url) == told


def test_a_variable_of_the_environment_is_taken():
    assert from_environment("$URL", "url", {"URL": URL}) == URL
    assert from_environment(URL, "url", {}) == URL
