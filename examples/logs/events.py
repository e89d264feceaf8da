"""Log lines of a small web shop, one of whose programs fails for a while."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

TOPIC = "logs"
COUNT = 10_000
MINUTES = 60
SEVERITIES = {"info": 6, "notice": 5, "warning": 4, "err": 3}
USER_FACILITY = 1
FAILING = ("shop", 0.6, 0.75)  # who fails, from when to when, as parts of the whole
# Each program: how much it logs, and what at which severity.
PROGRAMS = {
    "nginx": (
        50,
        {"info": "GET /item/{n} 200", "warning": "slow client {n}", "err": "upstream timed out {n}"},
    ),
    "shop": (
        30,
        {"info": "order {n} placed", "notice": "basket {n} left", "err": "payment {n} failed: no route"},
    ),
    "postgres": (
        12,
        {"info": "checkpoint {n} complete", "warning": "lock {n} waits", "err": "deadlock in {n}"},
    ),
    "cron": (8, {"info": "job {n} done", "notice": "job {n} began", "err": "job {n}: exit code 1"}),
}
USUAL = {"info": 85, "notice": 10, "warning": 10, "err": 2}


@dataclass(frozen=True, slots=True)
class Line:
    at: datetime
    host: str
    program: str
    severity: str
    message: str

    def syslog(self) -> bytes:
        """As programs send it to a log daemon: RFC 5424, a line each."""
        priority = USER_FACILITY * 8 + SEVERITIES[self.severity]
        at = self.at.isoformat(timespec="milliseconds")
        return f"<{priority}>1 {at} {self.host} {self.program} 812 - - {self.message}\n".encode()


def lines(count: int, seed: int, until: datetime) -> Iterator[Line]:
    """In the order of their times; the last is at `until`."""
    chance = Random(seed)
    begin = until - timedelta(minutes=MINUTES)
    names = list(PROGRAMS)
    weights = [PROGRAMS[name][0] for name in names]
    for number in range(1, count + 1):
        part = number / count
        program = chance.choices(names, weights)[0]
        texts = PROGRAMS[program][1]
        failing = program == FAILING[0] and FAILING[1] < part < FAILING[2]
        usual = [60 if failing and severity == "err" else USUAL[severity] for severity in texts]
        severity = chance.choices(list(texts), usual)[0]
        yield Line(
            at=begin + part * (until - begin),
            host=chance.choice(("web-1", "web-2", "web-3")),
            program=program,
            severity=severity,
            message=texts[severity].format(n=chance.randrange(1000, 9999)),
        )
