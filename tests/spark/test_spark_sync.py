"""The job sync with a real PostgreSQL, and by JDBC with the database that comes with Spark."""

import json
import threading
import time
from functools import partial

import pyarrow as pa
import pytest
from lake_kit import counted_rows
from postgres_kit import programs, running_postgres
from pyspark.errors import StreamingQueryException
from spark_kit import T0_MS, new_name

from mainstem.client import TopicPartition
from mainstem.model.errors import InvalidRequest
from mainstem.model.records import Record
from mainstem.pipeline.counting import Tally
from mainstem.pipeline.jobs import JobRun
from mainstem.pipeline.jobs.sync import JOB
from mainstem.pipeline.jobs.sync_apply import Applier, DatabaseGone, Outcome, Refused
from mainstem.pipeline.jobs.sync_changes import Changes
from mainstem.pipeline.jobs.sync_growing import Settling, growing_of
from mainstem.pipeline.jobs.sync_table import Table, prepare

SCHEMA = "id BIGINT, name STRING, amount DOUBLE"


@pytest.fixture(scope="module")
def postgres():
    if programs() is None:
        pytest.skip("PostgreSQL is not here: apt install postgresql")
    with running_postgres() as server:
        yield server


@pytest.fixture
def table():
    return new_name("customers").replace("-", "_")


def start(house, checkpoint, once=True, tally=None, **options):
    """Names of options with _ for a dot."""
    defaults = {option.name: option.default for option in JOB.options if option.default}
    chosen = defaults | {name.replace("_", "."): value for name, value in options.items()}
    JOB.check(chosen)
    trigger = {"availableNow": True} if once else {"processingTime": "0 seconds"}
    name, tally = new_name("sync"), tally or Tally()
    (query,) = JOB.start(
        JobRun(house.spark, house.options(), name, chosen, str(checkpoint), trigger, once, tally)
    )
    return query


def run(house, checkpoint, **options):
    query = start(house, checkpoint, **options)
    query.awaitTermination(90)
    assert not query.isActive
    return query


def put(house, topic, *rows, partition=0):
    """(key, value) with values as JSON; None is a tombstone, bytes are sent as they are."""
    records = []
    for at, (key, value) in enumerate(rows):
        data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        records.append(Record(0, T0_MS + at, None if key is None else str(key).encode(), data))
    house.put(topic, records, partition)


def rows_of(postgres, table, columns="*", order="id"):
    with postgres.connect() as connection:
        return connection.execute(f'SELECT {columns} FROM "{table}" ORDER BY {order}').fetchall()


def records_of(house, topic, partitions=1):
    found = []
    with house.client() as client:
        for partition in range(partitions):
            place, offset = TopicPartition(topic, partition), 0
            while True:
                (fetched,) = client.fetch({place: offset}, max_wait_ms=10)
                found += list(fetched.check().decoded(committed=True))
                if fetched.next_offset == offset:
                    break
                offset = fetched.next_offset
    return found


def until(what, holds, wait_s=60):
    deadline = time.monotonic() + wait_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {wait_s} s: {what}"
        time.sleep(0.05)


def forget(checkpoint, batch):
    """As if the driver had died before it could note that the batch was done."""
    (checkpoint / "commits" / f"{batch}").unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


# --- to a table ----------------------------------------------------------------------------------


def test_the_last_value_of_each_key_is_the_row_and_a_tombstone_deletes_it(
    house, postgres, topic, table, tmp_path
):
    house.create(topic, 2, retention_ms="-1")
    put(
        house,
        topic,
        (1, {"id": 1, "name": "old", "amount": 1}),
        (2, {"id": 2, "name": "gone", "amount": 2.5}),
        (1, {"id": 1, "name": "new", "amount": None}),
        (2, None),
        (3, None),
        (3, {"id": 3, "name": "", "amount": 3}),
    )
    put(house, topic, (4, {"id": 4, "name": 'quote " comma, \n line ä', "amount": 1e300}), partition=1)
    options = {"topic": topic, "url": postgres.url, "table": table, "key": "id", "schema": SCHEMA}
    tally = Tally()
    run(house, tmp_path, tally=tally, **options)
    assert rows_of(postgres, table) == [
        (1, "new", None),
        (3, "", 3.0),
        (4, 'quote " comma, \n line ä', 1e300),
    ]
    put(house, topic, (1, None), ('{"id": 3}', None), (4, {"id": 4, "name": "four"}), (5, None))
    run(house, tmp_path, tally=tally, **options)
    assert rows_of(postgres, table) == [(4, "four", None)]
    assert (tally.take(0), tally.take(1)) == (3, 3), "as the database counts them"


def test_a_batch_that_is_repeated_is_known_and_not_applied_again(house, postgres, topic, table, tmp_path):
    house.create(topic, retention_ms="-1")
    options = {"topic": topic, "url": postgres.url, "table": table, "schema": SCHEMA, "max_records": "100"}
    put(house, topic, *((i, {"id": i, "name": "n", "amount": i}) for i in range(250)))
    run(house, tmp_path, **options)  # without a key: rows are added, so that a repetition would show
    forget(tmp_path, 2)
    put(house, topic, *((i, {"id": i, "name": "n", "amount": i}) for i in range(250, 300)))
    tally = Tally()
    run(house, tmp_path, tally=tally, **options)
    assert [row[0] for row in rows_of(postgres, table)] == list(range(300))
    assert (tally.take(2), tally.take(3)) == (50, 50)


def changes_of(fields, rows, deleted=()):
    upserts = pa.Table.from_pylist([dict(zip(fields.names, row, strict=True)) for row in rows], fields)
    keys = pa.table({"id": pa.array(deleted, pa.int64())})
    return Changes(upserts, range(len(rows)), keys, range(len(deleted)), [], lambda row: (7, row))


def test_a_batch_whose_commit_is_still_under_way_is_not_applied_beside_it(postgres, table):
    """As after an answer that got lost, with the first batch of a query."""
    fields = pa.schema([pa.field("id", pa.int64())])
    with postgres.connect() as connection:
        prepare(connection, Table(table, fields, ()), create=True)
    appliers = [Applier(postgres.url, Table(table, fields, ()), 10) for _ in range(2)]
    begun, go_on, outcomes = threading.Event(), threading.Event(), {}

    def slowly():
        begun.set()
        go_on.wait()
        return changes_of(fields, [(1,)])

    def is_waiting():
        with postgres.connect() as connection:
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            return connection.execute(waiting).fetchone()[0] > 0

    def apply(name, applier, changes):
        outcomes[name] = applier.apply(table, 0, changes)

    first = threading.Thread(target=apply, args=("first", appliers[0], slowly))
    again = threading.Thread(target=apply, args=("again", appliers[1], partial(changes_of, fields, [(1,)])))
    first.start()
    begun.wait()
    again.start()
    until("the second waits for the first", is_waiting)
    go_on.set()
    for thread, applier in zip((first, again), appliers, strict=True):
        thread.join()
        applier.close()
    assert outcomes == dict.fromkeys(("first", "again"), Outcome(rows=1))
    assert rows_of(postgres, table) == [(1,)]


def test_a_row_may_take_what_a_deleted_one_leaves_free(postgres, table):
    fields = pa.schema([pa.field("id", pa.int64()), pa.field("email", pa.string())])
    with postgres.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, email text UNIQUE)")
        prepare(connection, Table(table, fields, ("id",)), create=True)
    applier = Applier(postgres.url, Table(table, fields, ("id",)), 10)
    assert applier.apply(table, 0, lambda: changes_of(fields, [(1, "a@b")])) == Outcome(rows=1)
    both = applier.apply(table, 1, lambda: changes_of(fields, [(2, "a@b")], deleted=[1]))
    applier.close()
    assert both == Outcome(rows=2)
    assert rows_of(postgres, table) == [(2, "a@b")]


def test_a_batch_that_was_applied_tells_again_what_was_refused(postgres, table):
    """A process may end between its transaction and its dead letters."""
    fields = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
    with postgres.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, name text NOT NULL)")
        prepare(connection, Table(table, fields, ("id",)), create=False)
        connection.execute("ALTER TABLE mainstem_sync DROP COLUMN outcome")  # as an earlier version made it
        prepare(connection, Table(table, fields, ("id",)), create=False)
    first, again = (Applier(postgres.url, Table(table, fields, ("id",)), 10) for _ in range(2))
    told = first.apply(table, 0, lambda: changes_of(fields, [(1, "a"), (2, None), (3, "nul \0")]))
    assert told.rows == 1
    assert [(one.partition, one.offset) for one in told.refused] == [(7, 1), (7, 2)]
    assert again.apply(table, 0, lambda: pytest.fail("it was applied")) == told
    assert all(isinstance(one, Refused) and one.reason for one in told.refused)
    first.close()
    again.close()


def test_rows_that_the_table_refuses_go_to_a_topic_with_the_reason_and_the_others_arrive(
    house, postgres, topic, table, tmp_path
):
    house.create(topic, retention_ms="-1")
    with postgres.connect() as connection:
        connection.execute(
            f"CREATE TABLE {table} "
            "(id int PRIMARY KEY, name text NOT NULL, amount numeric CHECK (amount >= 0))"
        )
    rows = [(i, {"id": i, "name": f"n{i}", "amount": i}) for i in range(200)]
    rows[17] = (17, {"id": 17, "name": "negative", "amount": -1})
    rows[42] = (42, {"id": 42, "amount": 1})
    rows[77] = (77, b"{not json")
    rows[78] = (78, {"id": 2**40, "name": "too large", "amount": 1})
    rows[79] = (79, {"id": 79, "name": "nul \0", "amount": 1})
    rows[80] = (None, None)
    rows[81] = (81, {"name": "no key", "amount": 1})
    put(house, topic, *rows)
    options = {"topic": topic, "url": postgres.url, "table": table, "key": "id", "schema": SCHEMA}
    run(house, tmp_path, **options)
    forget(tmp_path, 0)
    run(house, tmp_path, **options)  # which finds the letters published
    bad = {17, 42, 77, 78, 79, 80, 81}
    assert [row[0] for row in rows_of(postgres, table)] == [i for i in range(200) if i not in bad]
    found = records_of(house, f"{topic}.dead")
    assert len(found) == len(bad), "one of each, though the batch was repeated"
    dead = {int(dict(one.headers)["mainstem.offset"]): one for one in found}
    reasons = {offset: dict(one.headers)["mainstem.reason"].decode() for offset, one in dead.items()}
    assert set(reasons) == bad
    assert "violates check constraint" in reasons[17]
    assert 'null value in column "name"' in reasons[42]
    assert "JSON" in reasons[77]
    assert "out of range" in reasons[78]
    assert "0x00" in reasons[79]
    assert "without a key" in reasons[80]
    assert "'id', of the key, is missing" in reasons[81]
    assert (dead[77].key, dead[77].value) == (b"77", b"{not json")


def test_a_transaction_that_is_undone_leaves_no_dead_letters_behind(house, postgres, topic, table, tmp_path):
    house.create(topic, retention_ms="-1")
    put(house, topic, (1, {"id": 1}), (2, b"{not json"))
    fields = pa.schema([pa.field("id", pa.int64())])
    cut = f"""
        CREATE SEQUENCE {table}_tries;
        CREATE FUNCTION {table}_cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('{table}_tries') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER {table}_cut BEFORE UPDATE ON mainstem_sync
            FOR EACH ROW EXECUTE FUNCTION {table}_cut()"""
    with postgres.connect() as connection:
        prepare(connection, Table(table, fields, ("id",)), create=True)
        connection.execute(cut)  # the connection, once, when the batch is about to be noted
    try:
        run(house, tmp_path, topic=topic, url=postgres.url, table=table, key="id", schema="id BIGINT")
    finally:
        with postgres.connect() as connection:
            (tries,) = connection.execute(f"SELECT last_value FROM {table}_tries").fetchone()
            connection.execute(f"DROP TRIGGER {table}_cut ON mainstem_sync")
    assert tries == 2
    assert rows_of(postgres, table) == [(1,)]
    assert [one.value for one in records_of(house, f"{topic}.dead")] == [b"{not json"]


def test_types_have_their_counterparts(house, postgres, topic, table, tmp_path):
    house.create(topic, retention_ms="-1")
    schema = (
        "id INT, b BOOLEAN, s SMALLINT, r FLOAT, n DECIMAL(10, 2), d DATE, at TIMESTAMP, "
        "tags ARRAY<STRING>, place STRUCT<city: STRING>"
    )
    value = {"id": 1, "b": True, "s": 7, "r": 0.5, "n": "12.50", "d": "2026-01-02"}
    value |= {"at": "2026-01-02T03:04:05.678901Z", "tags": ["a", "b"], "place": {"city": "Ulm"}}
    put(house, topic, (1, value), (2, {"id": 2}))
    run(house, tmp_path, topic=topic, url=postgres.url, table=table, key="id", schema=schema)
    told, empty = rows_of(postgres, table, f'row_to_json("{table}")::text')
    at = rows_of(postgres, table, "at AT TIME ZONE 'UTC'")[0][0].isoformat()
    assert at == "2026-01-02T03:04:05.678901"
    found = json.loads(told[0])
    assert found == value | {"n": 12.5, "at": found["at"]}
    assert set(json.loads(empty[0]).values()) == {2, None}


def test_a_table_or_an_address_that_does_not_fit_is_refused_without_telling_the_password(
    house, postgres, topic, table, tmp_path
):
    house.create(topic)
    given = {"topic": topic, "url": postgres.url, "table": table, "schema": SCHEMA}
    with pytest.raises(InvalidRequest, match="key 'idd' is not among .*did you mean 'id'"):
        start(house, tmp_path, **given, key="idd")
    with pytest.raises(InvalidRequest, match="there is no table"):
        start(house, tmp_path, **given, key="id", create="false")
    with postgres.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (id bigint, name text, amounts float8)")
    with pytest.raises(InvalidRequest, match="has no column 'amount'; did you mean 'amounts'"):
        start(house, tmp_path, **given, key="id")
    with postgres.connect() as connection:
        connection.execute(f"ALTER TABLE {table} RENAME amounts TO amount")
    with pytest.raises(InvalidRequest, match="no primary key or unique index on id"):
        start(house, tmp_path, **given, key="id")
    with pytest.raises(DatabaseGone, match="password authentication failed") as error:
        start(house, tmp_path, **given | {"url": postgres.url.replace("s3cret", "wr0ng")})
    assert "wr0ng" not in str(error.value)


def test_a_database_that_is_away_is_waited_for(house, postgres, topic, table, tmp_path, caplog):
    house.create(topic, retention_ms="-1")
    put(house, topic, (1, {"id": 1}))
    query = start(
        house, tmp_path, once=False, topic=topic, url=postgres.url, table=table, key="id", schema=SCHEMA
    )
    try:
        until("the first row", lambda: rows_of(postgres, table, "id") == [(1,)])
        postgres.stop()
        put(house, topic, (2, {"id": 2}))
        until("it meets a database that is away", lambda: "the database is waited for" in caplog.text)
        postgres.start()
        until("the second row", lambda: rows_of(postgres, table, "id") == [(1,), (2,)])
        assert query.isActive
    finally:
        query.stop()


# --- by JDBC -------------------------------------------------------------------------------------


def test_rows_go_to_any_database_whose_driver_spark_has(house, topic, tmp_path):
    house.create(topic, retention_ms="-1")
    put(house, topic, (1, {"id": 1, "name": "a"}), (2, None), (3, {"id": 3, "name": "b"}))
    url, driver = f"jdbc:derby:{tmp_path}/db;create=true", "org.apache.derby.iapi.jdbc.AutoloadedDriver"
    options = {"topic": topic, "jdbc_url": url, "jdbc_driver": driver, "table": "customers"}
    query = run(house, tmp_path / "checkpoint", **options, schema="id INT, name STRING")
    assert counted_rows(query) == 2
    read = house.spark.read.format("jdbc").options(url=url, driver=driver, dbtable="customers").load()
    assert sorted((row.id, row.name) for row in read.collect()) == [(1, "a"), (3, "b")]


def test_a_driver_that_spark_has_not_is_named_before_anything_is_read(house, topic, tmp_path):
    with pytest.raises(InvalidRequest, match="'com.example.Driver' is not on Spark's class path"):
        start(
            house,
            tmp_path,
            topic=topic,
            table="t",
            schema=SCHEMA,
            jdbc_url="jdbc:example://host/db",
            jdbc_driver="com.example.Driver",
        )


# --- from a table --------------------------------------------------------------------------------


def values_of(house, topic, partitions=1):
    return [json.loads(one.value) for one in records_of(house, topic, partitions)]


def test_rows_become_records_in_the_order_of_the_column(house, postgres, topic, table, tmp_path):
    house.create(topic, retention_ms="-1")
    with postgres.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (id serial PRIMARY KEY, name text, at timestamptz)")
        connection.execute(
            f"INSERT INTO {table} (name, at) "
            "SELECT 'n' || i, '2026-01-02T03:04:05Z' FROM generate_series(1, 25) i"
        )
    options = {"direction": "from", "topic": topic, "url": postgres.url, "table": table, "column": "id"}
    query = run(house, tmp_path, **options, max_records="10", settle="0")
    assert counted_rows(query) == 25
    found = records_of(house, topic)
    assert [json.loads(one.value) for one in found] == [
        {"id": i, "name": f"n{i}", "at": "2026-01-02T03:04:05+00:00"} for i in range(1, 26)
    ]
    assert [one.key for one in found] == [b"%d" % i for i in range(1, 26)]
    with postgres.connect() as connection:
        connection.execute(f"INSERT INTO {table} (name) VALUES ('later')")
    run(house, tmp_path, **options, settle="0")
    assert [value["id"] for value in values_of(house, topic)] == list(range(1, 27))


def test_equal_times_of_change_are_told_apart_by_the_key(house, postgres, topic, table, tmp_path):
    house.create(topic, retention_ms="-1")
    with postgres.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (a int, b text, changed timestamp, PRIMARY KEY (a, b))")
        connection.execute(
            f"INSERT INTO {table} SELECT i % 5, 'b' || i, '2026-01-01'::timestamp + i / 10 * interval '1 s' "
            "FROM generate_series(0, 49) i"
        )
    options = {"direction": "from", "topic": topic, "url": postgres.url, "table": table, "settle": "0"}
    run(house, tmp_path, **options, column="changed", columns="a, b", max_records="7")
    found = records_of(house, topic)
    assert sorted(json.loads(one.value)["b"] for one in found) == sorted(f"b{i}" for i in range(50))
    assert all(json.loads(one.key) == json.loads(one.value) for one in found)


def test_a_repeated_batch_is_not_written_again_though_its_rows_have_changed(
    house, postgres, topic, table, tmp_path
):
    house.create(topic, retention_ms="-1")
    with postgres.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, name text, changed int)")
        connection.execute(f"INSERT INTO {table} SELECT i, 'first', i FROM generate_series(1, 20) i")
    options = {"direction": "from", "topic": topic, "url": postgres.url, "table": table, "settle": "0"}
    name = {"column": "changed", "max_records": "10", "state": f"{topic}.state"}
    run(house, tmp_path, **options, **name)
    forget(tmp_path, 1)
    with postgres.connect() as connection:  # which takes it out of the batch that is read again
        connection.execute(f"UPDATE {table} SET name = 'second', changed = 21 WHERE id = 15")
    run(house, tmp_path, **options, **name)
    found = [(value["id"], value["name"]) for value in values_of(house, topic)]
    assert found == [(i, "first") for i in range(1, 21)] + [(15, "second")]


def test_a_row_that_is_committed_late_with_a_smaller_number_is_not_passed_over(postgres, table):
    with postgres.connect() as connection, postgres.connect() as late, postgres.connect() as reader:
        connection.execute(f"CREATE TABLE {table} (id serial PRIMARY KEY, name text)")
        connection.execute(f"INSERT INTO {table} (name) VALUES ('early')")
        growing = growing_of(postgres.url, table, "id", (), ())
        settling = Settling(0, 0)
        assert settling.reach(reader, growing) == ("1",)
        late.autocommit = False
        late.execute(f"INSERT INTO {table} (name) VALUES ('late')")  # has number 2, and is not committed
        connection.execute(f"INSERT INTO {table} (name) VALUES ('quick')")
        settling.reach(reader, growing)  # what was seen before it began
        assert settling.reach(reader, growing) == ("1",), "the third row is seen, and the second might come"
        late.commit()
        assert settling.reach(reader, growing) == ("3",)
        statement, values = growing.rows(("1",), ("3",))
        found = [json.loads(value)["name"] for _, value in reader.execute(statement, values).fetchall()]
        assert found == ["late", "quick"]


def test_who_writes_to_a_part_of_a_table_by_its_own_name_is_waited_for_too(postgres, table):
    with postgres.connect() as connection, postgres.connect() as late, postgres.connect() as reader:
        connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY) PARTITION BY RANGE (id)")
        connection.execute(f"CREATE TABLE {table}_p PARTITION OF {table} DEFAULT PARTITION BY RANGE (id)")
        connection.execute(f"CREATE TABLE {table}_q PARTITION OF {table}_p DEFAULT")
        growing, settling = growing_of(postgres.url, table, "id", (), ()), Settling(0, 0)
        late.autocommit = False
        late.execute(f"INSERT INTO {table}_q VALUES (1)")
        connection.execute(f"INSERT INTO {table} VALUES (2)")
        assert settling.reach(reader, growing) is None
        late.commit()
        assert settling.reach(reader, growing) == ("2",)


def test_a_transaction_that_stays_open_ends_a_run_that_is_to_end_by_itself(
    house, postgres, topic, table, tmp_path
):
    house.create(topic, retention_ms="-1")
    with postgres.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (id serial PRIMARY KEY)")
        connection.execute(f"INSERT INTO {table} DEFAULT VALUES")
    options = {"direction": "from", "topic": topic, "url": postgres.url, "table": table, "settle": "0"}
    with postgres.connect() as late:
        late.autocommit = False
        late.execute(f"INSERT INTO {table} DEFAULT VALUES")
        query = start(house, tmp_path, **options, column="id", patience="1")
        with pytest.raises(StreamingQueryException, match="a transaction of the database stays open"):
            query.awaitTermination(90)
        late.commit()
    assert records_of(house, topic) == []
    run(house, tmp_path, **options, column="id")
    assert len(records_of(house, topic)) == 2


def test_a_table_that_cannot_be_read_so_is_refused(house, postgres, topic, table, tmp_path):
    with postgres.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (id int, name text)")
    options = {"direction": "from", "topic": topic, "url": postgres.url, "table": table}
    with pytest.raises(InvalidRequest, match="no column 'ids'; did you mean 'id'"):
        start(house, tmp_path, **options, column="ids")
    with pytest.raises(InvalidRequest, match="has no primary key: give key"):
        start(house, tmp_path, **options, column="id")
    with pytest.raises(InvalidRequest, match="there is no table 'nowhere'"):
        start(house, tmp_path, **options | {"table": "nowhere"}, column="id")
    with pytest.raises(InvalidRequest, match="key 'name' of table .* may be null"):
        start(house, tmp_path, **options, column="id", key="name")
    with postgres.connect() as connection:
        connection.execute(f"CREATE VIEW {table}_view AS SELECT * FROM {table}")
    with pytest.raises(InvalidRequest, match="_view' is not a table"):
        start(house, tmp_path, **options | {"table": f"{table}_view"}, column="id", key="id")
