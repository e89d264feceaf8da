"""The loop over JSON values: from bytes straight into columns, no object per value. Compiled if possible.

It reads the JSON that nearly everybody writes and is strict about it: an object on one line, fields of plain
types, numbers and texts that need no second thought. Whatever else it meets, be it wrong or only rare, it
stops at and says so: then Arrow's parser, which knows the rest and names what is wrong, reads all of them. So
there is one judge of what a bad value is, and here nothing may be taken that it would refuse, or read
otherwise than it does.

Types for the compiler are in json_loop.pxd. Functions return where they ended, or -1 where they give up. A
value's end is checked before each byte: behind it the next one lies.
"""

from __future__ import annotations

from collections.abc import Sequence

COMPILED = not __file__.endswith(".py")

WHOLE, REAL, TEXT, TRUTH, TIME, DAY = range(6)  # kinds of columns
_WHOLE, _REAL, _TEXT, _TRUTH, _TIME = WHOLE, REAL, TEXT, TRUTH, TIME  # as the compiler knows them

_TAB, _SPACE, _QUOTE, _COMMA, _MINUS, _PLUS, _DOT, _SLASH = b'\t ",-+./'
_ZERO, _NINE, _COLON, _BACKSLASH, _OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = b"09:\\{}[]"
_E, _T, _Z = b"ETZ"
_B_SMALL, _E_SMALL, _F_SMALL, _N_SMALL, _R_SMALL, _T_SMALL, _U_SMALL = b"befnrtu"
_NULL, _TRUE, _FALSE = b"null", b"true", b"false"

_MAX_DEPTH = 32  # of what is skipped
_MAX_DIGITS = 40  # far from what a double cannot hold, whatever the two digits of an exponent say
_MANTISSA_DIGITS = 19  # as many as fit into 64 bits
_EXACT = 1 << 53  # up to here every whole number is a double
_MAX_WHOLE = (1 << 63) - 1
_POWERS = 23  # of ten, that are doubles without rounding


class JsonColumns:
    """Columns of so many rows. Numbers of a column lie side by side, those of the next behind them.

    `numbers` holds 64 bits for each row: whole numbers, days, microseconds, 0 or 1, or a double. Of a text it
    is noted where it lies; `text` puts those of a column together. `valid` has a bit for each row.
    """

    def __init__(self, names: Sequence[bytes], kinds: Sequence[int], rows: int) -> None:
        self.rows = rows
        self.fields = len(names)
        self.is_ascii = True  # what was read so far
        self.numbers = bytearray(8 * rows * self.fields)
        self.stride = (rows + 7) // 8
        self.valid = bytearray(self.stride * self.fields)
        self._names = memoryview(b"".join(names))
        self._name_ends = memoryview(bytearray(8 * (self.fields + 1))).cast("q")
        for column, name in enumerate(names):
            self._name_ends[column + 1] = self._name_ends[column] + len(name)
        self._kinds = memoryview(bytearray(kinds))
        self._whole = memoryview(self.numbers).cast("q")
        self._real = memoryview(self.numbers).cast("d")
        self._starts = memoryview(bytearray(4 * rows * self.fields)).cast("i")
        self._sizes = memoryview(bytearray(4 * rows * self.fields)).cast("i")
        self._filled = memoryview(bytearray(8 * self.fields)).cast("q")  # the last row with the field, plus 1
        self._powers = memoryview(bytearray(8 * _POWERS)).cast("d")
        for power in range(_POWERS):
            self._powers[power] = float(10**power)
        self._data = memoryview(b"")
        # Of the text or number that was read last.
        self._size = 0
        self._is_plain = True
        self._is_whole = True
        self._is_negative = False
        self._mantissa = 0
        self._digits = 0
        self._scale = 0

    def fill(self, data: memoryview, ends: memoryview) -> bool:
        """Whether all were read. `ends`: where each value ends, with the start of the first before that."""
        self._data = data
        for row in range(self.rows):
            pos, end = ends[row], ends[row + 1]
            if pos < 0 or end > len(data) or self._row(self._space(pos, end), end, row) != end:
                return False
        return True

    def text(self, column: int) -> tuple[bytearray, bytearray]:
        """Where the texts of a column end (32 bits each, 0 before the first), and the texts end to end."""
        first, total = column * self.rows, 0
        end_data = bytearray(4 * (self.rows + 1))
        ends = memoryview(end_data).cast("i")
        for row in range(self.rows):
            total += self._sizes[first + row]
            ends[row + 1] = total
        texts = bytearray(total)
        at = 0
        for row in range(self.rows):
            size = self._sizes[first + row]
            start = self._starts[first + row]
            if start >= 0:
                self._copy(start, texts, at, size)
            else:
                self._unescape(-1 - start, texts, at, size)
            at += size
        return end_data, texts

    def _row(self, pos: int, end: int, row: int) -> int:
        """One value, with the space behind it."""
        expected = 0
        if pos >= end or self._data[pos] != _OPEN:
            return -1
        pos = self._space(pos + 1, end)
        if pos < end and self._data[pos] == _CLOSE:
            return self._space(pos + 1, end)
        while pos < end and self._data[pos] == _QUOTE:
            column = expected
            if expected < self.fields and self._is_name(expected, pos + 1, end):
                pos += 2 + self._name_ends[column + 1] - self._name_ends[column]
            else:
                column = self._column(pos + 1, end)
                pos = self._string(pos, end)
                if pos < 0 or not self._is_plain:
                    return -1
            pos = self._space(pos, end)
            if pos >= end or self._data[pos] != _COLON:
                return -1
            pos = self._space(pos + 1, end)
            if column < 0:
                pos = self._skip(pos, end, 0)
            else:
                if self._filled[column] == row + 1:  # twice
                    return -1
                self._filled[column] = row + 1
                expected = column + 1
                pos = self._field(pos, end, column, row)
            if pos < 0:
                return -1
            pos = self._space(pos, end)
            if pos >= end:
                return -1
            if self._data[pos] == _CLOSE:
                return self._space(pos + 1, end)
            if self._data[pos] != _COMMA:
                return -1
            pos = self._space(pos + 1, end)
        return -1

    def _column(self, start: int, end: int) -> int:
        for column in range(self.fields):
            if self._is_name(column, start, end):
                return column
        return -1

    def _is_name(self, column: int, start: int, end: int) -> bool:
        """Whether the column's name stands there, with the quote that ends it."""
        first = self._name_ends[column]
        size = self._name_ends[column + 1] - first
        if start + size >= end or self._data[start + size] != _QUOTE:
            return False
        for index in range(size):  # noqa: SIM110 (compiled it is a plain loop)
            if self._names[first + index] != self._data[start + index]:
                return False
        return True

    def _field(self, pos: int, end: int, column: int, row: int) -> int:
        """Its value into the column. Where there is none, nothing is to do: all is null until it is set."""
        if pos >= end:
            return -1
        if self._data[pos] == _N_SMALL:
            return self._word(pos, end, _NULL)
        kind, cell = self._kinds[column], column * self.rows + row
        if kind in (_WHOLE, _REAL):
            start = pos
            pos = self._number(pos, end)
            if pos >= 0 and not (
                self._set_whole(cell) if kind == _WHOLE else self._set_real(cell, start, pos)
            ):
                return -1
        elif kind == _TRUTH:
            is_true = self._data[pos] == _T_SMALL
            pos = self._word(pos, end, _TRUE if is_true else _FALSE)
            self._whole[cell] = is_true
        elif self._data[pos] != _QUOTE:
            return -1
        else:
            start = pos + 1
            pos = self._string(pos, end)
            if pos < 0:
                return -1
            if kind == _TEXT:
                self._starts[cell] = start if self._is_plain else -1 - start
                self._sizes[cell] = self._size
            elif not self._is_plain or not self._set_time(cell, start, pos - 1, kind == _TIME):
                return -1
        if pos >= 0:
            self.valid[column * self.stride + (row >> 3)] |= 1 << (row & 7)
        return pos

    def _space(self, pos: int, end: int) -> int:
        while pos < end and (self._data[pos] == _SPACE or self._data[pos] == _TAB):
            pos += 1
        return pos

    def _word(self, pos: int, end: int, word: bytes) -> int:
        if end - pos < len(word):
            return -1
        for index in range(len(word)):
            if self._data[pos + index] != word[index]:
                return -1
        return pos + len(word)

    def _string(self, pos: int, end: int) -> int:
        """Behind a text; its size is noted, and whether it stands there as it is."""
        start, shorter = pos + 1, 0
        pos, is_plain, seen = start, True, 0
        while pos < end:
            byte = self._data[pos]
            if byte == _QUOTE:
                if seen >= 128:
                    self.is_ascii = False
                self._size, self._is_plain = pos - start - shorter, is_plain
                return pos + 1
            if byte < _SPACE:
                return -1
            seen |= byte
            pos += 1
            if byte == _BACKSLASH:
                is_plain = False
                if pos >= end:
                    return -1
                if self._data[pos] == _U_SMALL:
                    size = _utf8_size(self._unit(pos + 1, end))
                    if size < 0:
                        return -1
                    shorter += 6 - size
                    pos += 5
                else:
                    if _escaped(self._data[pos]) < 0:
                        return -1
                    shorter += 1
                    pos += 1
        return -1

    def _unit(self, pos: int, end: int) -> int:
        """The four digits of an escape; -1 also for half a pair, which are for others to put together."""
        value = 0
        if end - pos < 4:
            return -1
        for index in range(4):
            digit = _hex(self._data[pos + index])
            if digit < 0:
                return -1
            value = value << 4 | digit
        return -1 if 0xD800 <= value < 0xE000 else value

    def _number(self, pos: int, end: int) -> int:
        """Behind a number, whose parts are noted."""
        self._mantissa, self._digits, self._scale, self._is_whole = 0, 0, 0, True
        self._is_negative = pos < end and self._data[pos] == _MINUS
        if self._is_negative:
            pos += 1
        first = pos
        pos = self._run(pos, end)
        if pos == first or (self._data[first] == _ZERO and pos > first + 1):
            return -1
        if pos < end and self._data[pos] == _DOT:
            self._is_whole = False
            first = pos + 1
            pos = self._run(first, end)
            if pos == first:
                return -1
            self._scale = first - pos
        if pos < end and (self._data[pos] == _E_SMALL or self._data[pos] == _E):
            self._is_whole = False
            pos = self._exponent(pos + 1, end)
        return -1 if self._digits > _MAX_DIGITS else pos

    def _run(self, pos: int, end: int) -> int:
        """Behind digits, which are added to the mantissa as long as there is room."""
        while pos < end:
            byte = self._data[pos]
            if byte < _ZERO or byte > _NINE:
                break
            if self._digits < _MANTISSA_DIGITS:
                self._mantissa = self._mantissa * 10 + (byte - _ZERO)
            self._digits += 1
            pos += 1
        return pos

    def _exponent(self, pos: int, end: int) -> int:
        is_negative = pos < end and self._data[pos] == _MINUS
        if is_negative or (pos < end and self._data[pos] == _PLUS):
            pos += 1
        first, value = pos, 0
        while pos < end and _ZERO <= self._data[pos] <= _NINE:
            if pos - first == 2:
                return -1
            value = value * 10 + (self._data[pos] - _ZERO)
            pos += 1
        if pos == first:
            return -1
        self._scale += -value if is_negative else value
        return pos

    def _set_whole(self, cell: int) -> bool:
        if not self._is_whole or self._digits > _MANTISSA_DIGITS or self._mantissa > _MAX_WHOLE:
            return False
        value = self._mantissa
        self._whole[cell] = -value if self._is_negative else value
        return True

    def _set_real(self, cell: int, start: int, stop: int) -> bool:
        """A fraction of two exact parts is rounded once, as it must be; any other is read by Python."""
        if self._digits > _MANTISSA_DIGITS or self._mantissa > _EXACT or not -_POWERS < self._scale < _POWERS:
            self._real[cell] = float(bytes(self._data[start:stop]))
            return True
        value = float(self._mantissa)
        if self._scale < 0:
            value = value / self._powers[-self._scale]
        else:
            value = value * self._powers[self._scale]
        self._real[cell] = -value if self._is_negative else value
        return True

    def _set_time(self, cell: int, pos: int, stop: int, with_clock: bool) -> bool:
        """2024-05-01, and with a clock 2024-05-01T10:00:00.123456Z; or +02:00, or nothing, which is UTC."""
        year, month, day = self._two(pos, stop) * 100, self._two(pos + 5, stop), self._two(pos + 8, stop)
        rest = self._two(pos + 2, stop)
        year += rest
        if rest < 0 or year < 1 or month < 1 or month > 12 or day < 1 or day > _month_days(year, month):
            return False
        if self._data[pos + 4] != _MINUS or self._data[pos + 7] != _MINUS:
            return False
        days = _days_since_1970(year, month, day)
        pos += 10
        if not with_clock:
            self._whole[cell] = days
            return pos == stop
        hour, minute, second = self._two(pos + 1, stop), self._two(pos + 4, stop), self._two(pos + 7, stop)
        if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
            return False
        if self._data[pos + 3] != _COLON or self._data[pos + 6] != _COLON:
            return False
        if self._data[pos] != _T and self._data[pos] != _SPACE:
            return False
        micros = (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000
        pos += 9
        if pos < stop and self._data[pos] == _DOT:
            unit, pos = 100_000, pos + 1
            first = pos
            while pos < stop and unit and _ZERO <= self._data[pos] <= _NINE:
                micros += unit * (self._data[pos] - _ZERO)
                unit //= 10
                pos += 1
            if pos == first:
                return False
        return self._set_zoned(cell, micros, pos, stop)

    def _set_zoned(self, cell: int, micros: int, pos: int, stop: int) -> bool:
        self._whole[cell] = micros
        if pos == stop:
            return True
        if self._data[pos] == _Z:
            return pos + 1 == stop
        hours, minutes = self._two(pos + 1, stop), self._two(pos + 4, stop)
        if not (0 <= hours < 24 and 0 <= minutes < 60) or pos + 6 != stop or self._data[pos + 3] != _COLON:
            return False
        ahead = (hours * 60 + minutes) * 60 * 1_000_000
        if self._data[pos] == _PLUS:
            self._whole[cell] = micros - ahead
        elif self._data[pos] == _MINUS:
            self._whole[cell] = micros + ahead
        else:
            return False
        return True

    def _two(self, pos: int, stop: int) -> int:
        """A number of two digits, or one that is far below 0: sums with it are below 0 too."""
        if pos + 2 > stop:
            return -1
        tens, ones = self._data[pos], self._data[pos + 1]
        if not (_ZERO <= tens <= _NINE and _ZERO <= ones <= _NINE):
            return -1
        return (tens - _ZERO) * 10 + (ones - _ZERO)

    def _skip(self, pos: int, end: int, depth: int) -> int:
        """Behind a value that nobody wants, which has to be JSON all the same."""
        if pos >= end or depth > _MAX_DEPTH:
            return -1
        byte = self._data[pos]
        if byte == _QUOTE:
            return self._string(pos, end)
        if byte in (_OPEN, _OPEN_LIST):
            return self._skip_all(pos + 1, end, depth + 1, byte == _OPEN)
        if byte == _N_SMALL:
            return self._word(pos, end, _NULL)
        if byte == _T_SMALL:
            return self._word(pos, end, _TRUE)
        if byte == _F_SMALL:
            return self._word(pos, end, _FALSE)
        return self._number(pos, end)

    def _skip_all(self, pos: int, end: int, depth: int, with_names: bool) -> int:
        """Behind an object or a list, from within."""
        closing = _CLOSE if with_names else _CLOSE_LIST
        pos = self._space(pos, end)
        if pos < end and self._data[pos] == closing:
            return pos + 1
        while True:
            if with_names:
                if pos >= end or self._data[pos] != _QUOTE:
                    return -1
                pos = self._string(pos, end)
                if pos < 0:
                    return -1
                pos = self._space(pos, end)
                if pos >= end or self._data[pos] != _COLON:
                    return -1
                pos = self._space(pos + 1, end)
            pos = self._skip(pos, end, depth)
            if pos < 0:
                return -1
            pos = self._space(pos, end)
            if pos >= end:
                return -1
            if self._data[pos] == closing:
                return pos + 1
            if self._data[pos] != _COMMA:
                return -1
            pos = self._space(pos + 1, end)

    def _copy(self, start: int, target: bytearray, at: int, size: int) -> None:
        for index in range(size):
            target[at + index] = self._data[start + index]

    def _unescape(self, pos: int, target: bytearray, at: int, size: int) -> None:
        """It was read before, so that all in it is known to be well."""
        stop = at + size
        while at < stop:
            byte = self._data[pos]
            pos += 1
            if byte != _BACKSLASH:
                target[at] = byte
                at += 1
                continue
            byte = self._data[pos]
            pos += 1
            if byte != _U_SMALL:
                target[at] = _escaped(byte)
                at += 1
                continue
            unit = self._unit(pos, pos + 4)
            pos += 4
            at = _put(target, at, unit)


def _put(target: bytearray, at: int, unit: int) -> int:
    """As UTF-8."""
    if unit < 0x80:
        target[at] = unit
        return at + 1
    if unit < 0x800:
        target[at] = 0xC0 | unit >> 6
        target[at + 1] = 0x80 | unit & 63
        return at + 2
    target[at] = 0xE0 | unit >> 12
    target[at + 1] = 0x80 | unit >> 6 & 63
    target[at + 2] = 0x80 | unit & 63
    return at + 3


def _utf8_size(unit: int) -> int:
    if unit < 0x80:
        return -1 if unit < 0 else 1
    return 2 if unit < 0x800 else 3


def _escaped(byte: int) -> int:
    """What a byte behind a backslash stands for."""
    if byte in (_QUOTE, _BACKSLASH, _SLASH):
        return byte
    if byte == _N_SMALL:
        return 10
    if byte == _T_SMALL:
        return 9
    if byte == _R_SMALL:
        return 13
    if byte == _B_SMALL:
        return 8
    if byte == _F_SMALL:
        return 12
    return -1


def _hex(byte: int) -> int:
    if _ZERO <= byte <= _NINE:
        return byte - _ZERO
    byte |= 32
    return byte - 87 if 97 <= byte <= 102 else -1


def _month_days(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


def _days_since_1970(year: int, month: int, day: int) -> int:
    """Years are taken to begin in March, so that the day of a leap year is their last."""
    if month <= 2:
        year, month = year - 1, month + 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719_469
