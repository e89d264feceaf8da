"""The backup route: what it lets through, and how it ends."""

import asyncio
import contextlib
import json
import stat
import threading
import urllib.error
import urllib.request

import pytest

from mainstem.model.errors import StorageError
from mainstem.observe.backups import Backups
from mainstem.observe.http import Access, serve_http


class FakeCopy:
    """Writes one file; waits for `go`, if there is one, with a look at whether it should stop."""

    def __init__(self, go=None, fails=None):
        self.go, self.fails = go, fails

    def run(self, target, progress):
        progress(1, 10)
        while self.go is not None and not self.go.wait(0.01):
            progress(5, 10)
        if self.fails:
            raise self.fails
        with open(f"{target}/copied", "w"):
            progress(10, 10)

    def cancel(self):
        pass


@contextlib.asynccontextmanager
async def serving(data, hold=FakeCopy, why_not=lambda: None, token=None):
    backups = Backups(data, hold, why_not)
    server = await serve_http("127.0.0.1", 0, backups.routes(), access=Access(token=token))

    async def post(body, **headers):
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.port}/admin/backup",
            body if isinstance(body, bytes) else json.dumps(body).encode(),
            headers,
        )

        def send():
            try:
                with urllib.request.urlopen(request) as answer:
                    return answer.status, [json.loads(line) for line in answer]
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        return await asyncio.to_thread(send)

    try:
        yield post, backups
    finally:
        await backups.close()
        await server.close()


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_a_new_folder_is_filled_and_nobody_else_can_read_it(data, tmp_path):
    async def run():
        async with serving(data) as (post, _):
            status, lines = await post({"target": str(tmp_path / "deep" / "copy")})
        assert status == 200
        assert lines[-1] == {"ok": True, "target": str(tmp_path / "deep" / "copy"), "bytes": 10}

    asyncio.run(run())
    assert (tmp_path / "deep" / "copy" / "copied").exists()
    assert stat.S_IMODE((tmp_path / "deep" / "copy").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "body",
    [
        b"nonsense",
        b"[]",
        {},
        {"target": 3},
        {"target": "relative/path"},
        {"target": "/a\0b"},
        {"target": "DATA"},
        {"target": "DATA/inside"},
        {"target": "PARENT"},
        {"target": "PARENT/full"},
        {"target": "PARENT/link-to-data"},
        {"target": "/proc/nothing/here"},
    ],
)
def test_a_target_that_could_do_harm_is_refused(data, tmp_path, body):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "link-to-data").symlink_to(data)
    if isinstance(body, dict) and isinstance(body.get("target"), str):
        body = {"target": body["target"].replace("DATA", str(data)).replace("PARENT", str(tmp_path))}

    async def run():
        async with serving(data) as (post, _):
            assert (await post(body))[0] == 400

    asyncio.run(run())
    assert not list(data.iterdir())


def test_who_may_not_is_refused(data, tmp_path):
    async def run():
        target = {"target": str(tmp_path / "copy")}
        async with serving(data, token="secret") as (post, _):
            assert (await post(target))[0] == 401
            assert (await post(target, Authorization="Bearer secret", Origin="http://evil.example"))[0] == 403
            assert (await post(target, Authorization="Bearer secret"))[0] == 200
        async with serving(data, why_not=lambda: "not here") as (post, _):
            status, text = await post(target)
            assert status == 403
            assert "not here" in text

    asyncio.run(run())


def test_there_is_one_backup_at_a_time(data, tmp_path):
    async def run():
        go = threading.Event()
        async with serving(data, lambda: FakeCopy(go)) as (post, backups):
            first = asyncio.create_task(post({"target": str(tmp_path / "one")}))
            while backups._running is None:
                await asyncio.sleep(0)
            assert (await post({"target": str(tmp_path / "two")}))[0] == 409
            go.set()
            status, lines = await first
            assert status == 200
            assert lines[-1]["ok"]
            assert (await post({"target": str(tmp_path / "two")}))[0] == 200

    asyncio.run(run())


@pytest.mark.parametrize(
    "error", [StorageError("no room"), OSError(28, "No space left"), ValueError("a bug")]
)
def test_a_failure_is_the_last_line(data, tmp_path, error):
    async def run():
        async with serving(data, lambda: FakeCopy(fails=error)) as (post, _):
            status, lines = await post({"target": str(tmp_path / "copy")})
            assert status == 200
            assert "error" in lines[-1]

    asyncio.run(run())


def test_a_stopping_broker_cuts_a_backup_short_and_says_so(data, tmp_path):
    async def run():
        async with serving(data, lambda: FakeCopy(threading.Event())) as (post, backups):
            asked = asyncio.create_task(post({"target": str(tmp_path / "copy")}))
            while backups._running is None:
                await asyncio.sleep(0)
            await backups.close()
            _, lines = await asked
            assert lines[-1] == {"error": "the backup was cut short: the broker stops"}
        assert not (tmp_path / "copy" / "copied").exists()

    asyncio.run(run())
