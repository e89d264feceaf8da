"""Writes the Python text of one message's reader or writer, for one version.

For every class in the message there is one function: `read_X(buf, pos, size, room) -> (X, pos)` or
`write_X(m, out)`. `room` is a list of one number: how many elements arrays may still hold, all together.
Fixed-width fields that stand side by side, and the classic length of what follows them, are one `struct`
call. A reader looks like this (ListGroupsResponse v3, shortened):

    def read_ListGroupsResponse(buf, pos, size, room):
        m_throttle_time_ms, m_error_code, = unpack_10(buf, pos)
        pos += 6
        n = buf[pos]
        ...                                     # pos, longer varints
        if n >= 0:
            if n > (size - pos) // 3:
                too_many(n)
            room[0] -= n
            if room[0] < 0:
                too_many_in_all()
            m_groups_items = []
            for _ in range(n):
                item, pos = read_ListedGroup(buf, pos, size, room)
                m_groups_items.append(item)
            m_groups = m_groups_items
        else:
            bad_length(n)
        tags, = unpack_12(buf, pos)
        ...
        return make_13(m_throttle_time_ms, m_error_code, m_groups), pos

Locals that hold fields start with `m_`, so that no field's name can meet a helper's.
"""

from __future__ import annotations

import struct
from typing import Any

from mainstem.wire.kafka import primitives
from mainstem.wire.kafka.schema import RECORDS, STRING, UUID, Array, Blob, Field, Kind, Message, Scalar

_HELPERS: dict[str, Any] = {
    "bad_length": primitives.bad_length,
    "longer_varint": primitives.longer_varint,
    "pack": struct.pack,
    "put_varint": primitives.put_varint,
    "read_varint": primitives.read_varint,
    "skip_tags": primitives.skip_tags,
    "too_long": primitives.too_long,
    "too_many": primitives.too_many,
    "too_many_in_all": primitives.too_many_in_all,
    "unpack_from": struct.unpack_from,
    "wrong_tag_size": primitives.wrong_tag_size,
}


class Source:
    """Lines of Python, each with the field it works on, and the constants they use."""

    def __init__(self, file: str, entry: str) -> None:
        self.file, self.entry = file, entry
        self.lines: list[str] = []
        self.fields: list[str] = []
        self.scope: dict[str, Any] = dict(_HELPERS)
        self.field = ""

    def add(self, depth: int, *lines: str) -> None:
        for line in lines:
            self.lines.append("    " * depth + line)
            self.fields.append(self.field)

    def constant(self, prefix: str, value: Any) -> str:
        name = f"{prefix}_{len(self.scope)}"
        self.scope[name] = value
        return name

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def generate_reader(cls: type[Message], version: int) -> Source:
    source = Source(f"<kafka {cls.__name__} v{version} reader>", f"read_{cls.__name__}")
    flexible = version >= cls.FLEXIBLE_SINCE
    for struct_cls in _structs(cls, version):
        _Reader(source, struct_cls, version, flexible).function()
    return source


def generate_writer(cls: type[Message], version: int, *, in_steps: bool = False) -> Source:
    """`in_steps`: a generator that pauses after each element of an array that is a struct."""
    kind = "writer in steps" if in_steps else "writer"
    source = Source(f"<kafka {cls.__name__} v{version} {kind}>", f"write_{cls.__name__}")
    flexible = version >= cls.FLEXIBLE_SINCE
    for struct_cls in _structs(cls, version):
        _Writer(source, struct_cls, version, flexible, in_steps).function(is_entry=struct_cls is cls)
    return source


def _structs(cls: type[Message], version: int) -> list[type[Message]]:
    """The class and all classes below it that this version carries, each once."""
    found = [cls]
    for outer in found:  # grows while it is walked
        for field in outer.FIELDS:
            kind = field.kind
            while isinstance(kind, Array):
                kind = kind.element
            if isinstance(kind, type) and field.present(version) and kind not in found:
                found.append(kind)
    return found


def _pauses(cls: type[Message], version: int) -> bool:
    """Whether its writer in steps is a generator: it has arrays of structs, or a struct that has."""
    for field in cls.FIELDS:
        kind = field.kind
        if field.present(version):
            if isinstance(kind, Array) and isinstance(kind.element, type):
                return True
            if isinstance(kind, type) and _pauses(kind, version):
                return True
    return False


def min_width(kind: Kind, version: int, flexible: bool) -> int:
    """The fewest bytes one value can take: what a count of them is held against."""
    if isinstance(kind, Scalar):
        return kind.width
    if isinstance(kind, Blob):
        return 1 if flexible else 2 if kind.narrow else 4
    if isinstance(kind, Array):
        return 1 if flexible else 4
    total = 1 if flexible else 0
    for field in kind.FIELDS:
        if field.present(version) and field.tag is None:
            nullable_struct = isinstance(field.kind, type) and version >= field.nullable
            total += 1 if nullable_struct else min_width(field.kind, version, flexible)
    return total


class _Part:
    """What reader and writer of one class have in common: the split into plain and tagged fields."""

    def __init__(self, source: Source, cls: type[Message], version: int, flexible: bool) -> None:
        self.source, self.cls, self.version, self.flexible = source, cls, version, flexible
        present = [field for field in cls.FIELDS if field.present(version)]
        self.plain = [field for field in present if field.tag is None]
        self.tagged = sorted((f for f in present if f.tag is not None), key=lambda f: f.tag or 0)
        self.run: list[tuple[str, str]] = []  # (struct code, variable or expression) not yet emitted

    def at(self, field: Field) -> None:
        self.source.field = f"{self.cls.__name__}.{field.name}"

    def nullable(self, field: Field) -> bool:
        return self.version >= field.nullable


class _Reader(_Part):
    def function(self) -> None:
        cls, source = self.cls, self.source
        source.field = cls.__name__
        source.add(0, f"def read_{cls.__name__}(buf, pos, size, room):")
        for field in self.tagged:
            source.add(1, f"m_{field.name} = {self.default(field)}")
        for field in self.plain:
            self.at(field)
            self.value(1, field.kind, f"m_{field.name}", self.nullable(field))
        source.field = f"{cls.__name__} tagged fields"
        if self.flexible:
            self.tags()
        self.flush(1)
        values = [f"m_{f.name}" if f.present(self.version) else self.default(f) for f in cls.FIELDS]
        maker = source.constant("make", cls)
        source.add(1, f"return {maker}({', '.join(values)}), pos")

    def default(self, field: Field) -> str:
        return self.source.constant("new", field.default) + "()" if field.fresh() else repr(field.default)

    def flush(self, depth: int) -> None:
        """Emit the pending fixed-width fields as one unpack."""
        if self.run:
            layout = struct.Struct(">" + "".join(code for code, _ in self.run))
            unpack = self.source.constant("unpack", layout.unpack_from)
            names = ", ".join(name for _, name in self.run)
            self.source.add(depth, f"{names}, = {unpack}(buf, pos)", f"pos += {layout.size}")
            self.run.clear()

    def value(self, depth: int, kind: Kind, name: str, nullable: bool) -> None:
        """Emit what reads one value of `kind` into the variable `name`."""
        if isinstance(kind, Scalar):
            self.run.append((kind.code, name))
        elif isinstance(kind, Blob):
            self.blob(depth, kind, name, nullable)
        elif isinstance(kind, Array):
            self.array(depth, kind.element, name, nullable)
        elif nullable:
            self.run.append(("b", "n"))
            self.flush(depth)
            self.source.add(depth, f"{name} = None", "if n >= 0:")
            self.source.add(depth + 1, f"{name}, pos = read_{kind.__name__}(buf, pos, size, room)")
        else:
            self.flush(depth)
            self.source.add(depth, f"{name}, pos = read_{kind.__name__}(buf, pos, size, room)")

    def length(self, depth: int, narrow: bool) -> None:
        """Emit what reads a length or count into `n`; -1 is null."""
        if self.flexible:
            self.flush(depth)
            self.source.add(depth, "n = buf[pos]", "pos += 1", "if n > 127:")
            self.source.add(depth + 1, "n, pos = longer_varint(buf, pos, n)")
            self.source.add(depth, "n -= 1")
        else:
            self.run.append(("h" if narrow else "i", "n"))
            self.flush(depth)

    def null_or_bad(self, depth: int, name: str, nullable: bool) -> None:
        if nullable:
            self.source.add(depth, "elif n == -1:")
            self.source.add(depth + 1, f"{name} = None")
        self.source.add(depth, "else:")
        self.source.add(depth + 1, "bad_length(n)")

    def blob(self, depth: int, kind: Blob, name: str, nullable: bool) -> None:
        self.length(depth, kind.narrow)
        add = self.source.add
        add(depth, "if n >= 0:")
        add(depth + 1, "end = pos + n", "if end > size:")
        add(depth + 2, "too_long(n)")
        piece = "buf[pos:end]"
        made = f'str({piece}, "utf-8")' if kind is STRING else piece if kind is RECORDS else f"bytes({piece})"
        add(depth + 1, f"{name} = {made}", "pos = end")
        self.null_or_bad(depth, name, nullable)

    def array(self, depth: int, element: Kind, name: str, nullable: bool) -> None:
        self.length(depth, narrow=False)
        add = self.source.add
        add(depth, "if n >= 0:")
        smallest = max(1, min_width(element, self.version, self.flexible))
        add(depth + 1, f"if n > (size - pos) // {smallest}:")
        add(depth + 2, "too_many(n)")
        add(depth + 1, "room[0] -= n", "if room[0] < 0:")
        add(depth + 2, "too_many_in_all()")
        if element is UUID:
            add(depth + 1, f"{name} = [bytes(buf[at:at + 16]) for at in range(pos, pos + 16 * n, 16)]")
            add(depth + 1, "pos += 16 * n")
        elif isinstance(element, Scalar):
            add(depth + 1, f'{name} = list(unpack_from(f">{{n}}{element.code}", buf, pos))')
            add(depth + 1, f"pos += {element.width} * n")
        else:
            items = f"{name}_items"
            add(depth + 1, f"{items} = []", "for _ in range(n):")
            self.value(depth + 2, element, "item", nullable=False)
            add(depth + 2, f"{items}.append(item)")
            add(depth + 1, f"{name} = {items}")
        self.null_or_bad(depth, name, nullable)

    def tags(self) -> None:
        """Emit the tag section: known tags are read, all others skipped."""
        add = self.source.add
        self.run.append(("B", "tags"))
        self.flush(1)
        add(1, "if tags:")
        add(2, "if tags > 127:")
        add(3, "tags, pos = longer_varint(buf, pos, tags)")
        if not self.tagged:
            add(2, "pos = skip_tags(buf, pos, size, tags)")
            return
        add(2, "for _ in range(tags):")
        add(3, "tag, pos = read_varint(buf, pos)", "n, pos = read_varint(buf, pos)")
        add(3, "tag_end = pos + n", "if tag_end > size:")
        add(4, "too_long(n)")
        for index, field in enumerate(self.tagged):
            add(3, f"{'if' if index == 0 else 'elif'} tag == {field.tag}:")
            self.at(field)
            self.value(4, field.kind, f"m_{field.name}", self.nullable(field))
            self.flush(4)
        add(3, "else:")
        add(4, "pos = tag_end")
        add(3, "if pos != tag_end:")
        add(4, "wrong_tag_size()")


class _Writer(_Part):
    def __init__(
        self, source: Source, cls: type[Message], version: int, flexible: bool, in_steps: bool
    ) -> None:
        super().__init__(source, cls, version, flexible)
        self.in_steps = in_steps

    def function(self, *, is_entry: bool) -> None:
        cls, source = self.cls, self.source
        source.field = cls.__name__
        source.add(0, f"def write_{cls.__name__}(m, out):")
        for field in self.plain:
            self.at(field)
            self.value(1, field.kind, f"m.{field.name}", self.nullable(field))
        if self.flexible:
            self.tags()
        self.flush(1)
        if self.in_steps and is_entry:
            source.add(1, "yield")
        source.add(1, "return None")

    def flush(self, depth: int) -> None:
        if self.run:
            layout = struct.Struct(">" + "".join(code for code, _ in self.run))
            pack = self.source.constant("pack", layout.pack)
            self.source.add(depth, f"out += {pack}({', '.join(value for _, value in self.run)})")
            self.run.clear()

    def value(self, depth: int, kind: Kind, value: str, nullable: bool) -> None:
        """Emit what appends one value of `kind`, given as an expression."""
        if isinstance(kind, Scalar):
            self.run.append((kind.code, value))
        elif isinstance(kind, Blob):
            self.blob(depth, kind, value, nullable)
        elif isinstance(kind, Array):
            self.array(depth, kind.element, value, nullable)
        elif nullable:
            self.run.append(("b", f"-1 if {value} is None else 1"))
            self.flush(depth)
            self.source.add(depth, f"if {value} is not None:")
            self.source.add(depth + 1, self.call(kind, value))
        else:
            self.flush(depth)
            self.source.add(depth, self.call(kind, value))

    def call(self, kind: type[Message], value: str) -> str:
        pausing = self.in_steps and _pauses(kind, self.version)
        return f"{'yield from ' if pausing else ''}write_{kind.__name__}({value}, out)"

    def length(self, depth: int, narrow: bool) -> None:
        """Emit what appends the length `n`; -1 is null."""
        if self.flexible:
            self.flush(depth)
            self.source.add(depth, "if n < 127:")
            self.source.add(depth + 1, "out.append(n + 1)")
            self.source.add(depth, "else:")
            self.source.add(depth + 1, "put_varint(out, n + 1)")
        else:
            self.run.append(("h" if narrow else "i", "n"))
            self.flush(depth)

    def blob(self, depth: int, kind: Blob, value: str, nullable: bool) -> None:
        add = self.source.add
        made = "v.encode()" if kind is STRING else "v"
        add(depth, f"v = {value}")
        if nullable or kind is RECORDS:
            add(depth, "if v is None:")
            add(depth + 1, "b, n = b'', -1")
            add(depth, "else:")
            add(depth + 1, f"b = {made}", "n = len(b)")
        else:
            add(depth, f"b = {made}", "n = len(b)")
        self.length(depth, kind.narrow)
        add(depth, "out += b")

    def array(self, depth: int, element: Kind, value: str, nullable: bool) -> None:
        add = self.source.add
        items = f"items_{depth}"  # unlike v, it must outlive what the elements emit
        add(depth, f"{items} = {value}")
        if nullable:
            add(depth, f"n = -1 if {items} is None else len({items})")
        else:
            add(depth, f"n = len({items})")
        self.length(depth, narrow=False)
        if nullable:
            add(depth, "if n > 0:")
            depth += 1
        if element is UUID:
            add(depth, f"out += b''.join({items})")
        elif isinstance(element, Scalar):
            add(depth, f'out += pack(f">{{n}}{element.code}", *{items})')
        else:
            add(depth, f"for item in {items}:")
            self.value(depth + 1, element, "item", nullable=False)
            self.flush(depth + 1)
            if self.in_steps and isinstance(element, type):
                add(depth + 1, "yield")

    def tags(self) -> None:
        """Emit the tag section: fields that differ from their default, in the order of their tags."""
        if not self.tagged:
            self.run.append(("B", "0"))
            return
        add = self.source.add
        self.flush(1)
        add(1, "tags = []")
        for field in self.tagged:
            self.at(field)
            value = f"m.{field.name}"
            if field.default is None:
                test = f"{value} is not None"
            else:
                test = value if field.fresh() else f"{value} != {field.default!r}"
            add(1, f"if {test}:")
            add(2, "whole, out = out, bytearray()")
            self.value(2, field.kind, value, self.nullable(field))
            self.flush(2)
            add(2, f"tags.append(({field.tag}, out))", "out = whole")
        add(1, "put_varint(out, len(tags))")
        add(1, "for tag, data in tags:")
        add(2, "put_varint(out, tag)", "put_varint(out, len(data))", "out += data")
