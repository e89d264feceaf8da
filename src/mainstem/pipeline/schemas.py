"""The columns of what a pipeline reads, found without Spark: from DDL, the broker, or the files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from mainstem.client.client import Client
from mainstem.client.settings import ClientSettings
from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.ddl import RAW, ddl_columns
from mainstem.pipeline.names import Columns
from mainstem.pipeline.parts import Pipeline, PipelineError, Source
from mainstem.pipeline.settings import elsewhere, has_scheme, listed, text


def metadata_of(source: Source) -> tuple[str, ...]:
    """Of each record, asked for or meant by `timestamp = '_timestamp'`."""
    asked = listed(source.options, "metadata")
    meant = text(source.options, "timestamp").removeprefix("_")
    is_meant = text(source.options, "timestamp") == "_timestamp" and meant not in asked
    return (*asked, meant) if is_meant else asked


class Schemas:
    """Looks columns up. `settings` None: the broker is not asked, what only it knows stays unknown."""

    def __init__(self, pipeline: Pipeline, settings: ClientSettings | None, written: set[str]) -> None:
        self._folder = Path(pipeline.folder)
        self._settings = settings
        self._written = written  # topics and paths that the pipeline makes itself

    def topics(self) -> frozenset[str] | None:
        if self._settings is None:
            return None
        with Client(self._settings) as client:
            return frozenset(client.cluster().topics)

    def columns(self, source: Source) -> Columns:
        try:
            if source.kind == "stream":
                return self._of_stream(source)
            if source.schema:
                return ddl_columns(source.schema)
            return self._of_table(source)
        except InvalidRequest as error:
            raise PipelineError(source.at, f"{source.name}: {error}") from None

    def _of_stream(self, source: Source) -> Columns:
        format = text(source.options, "format", "json").lower()
        if format == "raw":
            return (*RAW, "headers") if text(source.options, "headers") == "true" else RAW
        found: Columns
        if source.schema:
            found = ddl_columns(source.schema)
        elif format == "text":
            found = ("value",)
        elif format == "avro":
            found = _avro_columns(text(source.options, "avro_schema"))
        elif format == "json":
            found = self._inferred(source)
        else:
            raise InvalidRequest(
                f"the fields of {format} must be given: CREATE STREAM {source.name} (id BIGINT, ...)"
            )
        return None if found is None else (*found, *(f"_{name}" for name in metadata_of(source)))

    def _inferred(self, source: Source) -> Columns:
        topics = listed(source.options, "topic")
        if self._settings is None or not topics or elsewhere(source.options):
            return None
        from mainstem.spark.inference import infer_ddl
        from mainstem.spark.options import Topics

        try:
            return ddl_columns(infer_ddl(self._settings, Topics(names=topics)))
        except InvalidRequest:
            if set(topics) & self._written:
                return None
            raise

    def _of_table(self, source: Source) -> Columns:
        format, path = text(source.options, "format"), text(source.options, "path")
        if not path or has_scheme(path) or path in self._written or any(mark in path for mark in "*?[{"):
            return None
        place = self._folder / path
        if not place.exists():
            raise InvalidRequest(f"there is no file or folder {str(place)!r}")
        if format == "csv" and text(source.options, "header", "false").lower() == "true":
            return _csv_columns(place, text(source.options, "sep") or text(source.options, "delimiter", ","))
        if format == "parquet":
            return _parquet_columns(place)
        return None


def _csv_columns(place: Path, separator: str) -> Columns:
    file = _first_file(place)
    if file is None:
        return None
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            return tuple(next(csv.reader(lines, delimiter=separator), ())) or None
    except (OSError, UnicodeError, TypeError, csv.Error):
        return None  # compressed, in another encoding, with a separator of its own: Spark's to read


def _parquet_columns(place: Path) -> Columns:
    from pyarrow import ArrowException, dataset

    try:
        names = dataset.dataset(place, format="parquet", partitioning="hive").schema.names
    except (ArrowException, OSError) as error:
        raise InvalidRequest(f"{place}: not Parquet: {error}") from None
    return tuple(names) or None


def _first_file(place: Path) -> Path | None:
    if place.is_file():
        return place
    files = sorted(file for file in place.rglob("*") if file.is_file() and file.name[0] not in "._")
    return files[0] if files else None


def _avro_columns(schema: str) -> Columns:
    if not schema:
        return None
    try:
        fields = json.loads(schema)["fields"]
        return tuple(field["name"] for field in fields)
    except (ValueError, KeyError, TypeError):
        raise InvalidRequest("avro_schema is not the JSON of an Avro record") from None
