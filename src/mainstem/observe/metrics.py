"""Meters as Prometheus reads them (text format 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterator

from mainstem.model.meters import AnyFamily, Counter, Gauge, Histogram, Meter, Meters

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(meters: Meters) -> str:
    return "".join(line + "\n" for family in meters for line in _family(family))


def _family(family: AnyFamily) -> Iterator[str]:
    name = _exposed_name(family)
    yield f"# HELP {name} {_escape(family.help)}"
    yield f"# TYPE {name} {family.kind}"
    # A copy, because reading a gauge may add members.
    members: dict[tuple[str, ...], Meter] = dict(family.members)
    for values, meter in sorted(members.items(), key=lambda item: item[0]):
        labels = [
            f'{label}="{_escape(value, quote=True)}"'
            for label, value in zip(family.labels, values, strict=True)
        ]
        yield from _meter(name, labels, meter)


def _exposed_name(family: AnyFamily) -> str:
    needs_suffix = family.kind == "counter" and not family.name.endswith("_total")
    return f"{family.name}_total" if needs_suffix else family.name


def _meter(name: str, labels: list[str], meter: Meter) -> Iterator[str]:
    if isinstance(meter, Counter | Gauge):
        yield _sample(name, labels, meter.now())
    elif isinstance(meter, Histogram):
        below = 0
        bounds = [*(f"{bound:g}" for bound in meter.bounds), "+Inf"]
        for bound, count in zip(bounds, meter.counts, strict=True):
            below += count
            yield _sample(f"{name}_bucket", [*labels, f'le="{bound}"'], below)
        yield _sample(f"{name}_sum", labels, meter.total)
        yield _sample(f"{name}_count", labels, below)


def _sample(name: str, labels: list[str], value: int | float) -> str:
    return f"{name}{{{','.join(labels)}}} {value}" if labels else f"{name} {value}"


def _escape(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text
