# Types for json_loop.py when it is compiled; without a compiler nobody reads this file.
cimport cython

ctypedef unsigned long long u64
ctypedef long long i64
ctypedef unsigned char u8

cdef int _WHOLE, _REAL, _TEXT, _TRUTH, _TIME
cdef u8 _TAB, _SPACE, _QUOTE, _COMMA, _MINUS, _PLUS, _DOT, _SLASH
cdef u8 _ZERO, _NINE, _COLON, _BACKSLASH, _OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST
cdef u8 _E, _T, _Z, _B_SMALL, _E_SMALL, _F_SMALL, _N_SMALL, _R_SMALL, _T_SMALL, _U_SMALL
cdef bytes _NULL, _TRUE, _FALSE
cdef int _MAX_DEPTH, _MAX_DIGITS, _MANTISSA_DIGITS, _POWERS
cdef u64 _EXACT, _MAX_WHOLE

@cython.final
cdef class JsonColumns:
    cdef public Py_ssize_t rows, fields, stride
    cdef public bint is_ascii
    cdef public bytearray numbers, valid
    cdef const u8[::1] _names
    cdef i64[::1] _name_ends
    cdef const u8[::1] _kinds
    cdef i64[::1] _whole
    cdef double[::1] _real
    cdef int[::1] _starts
    cdef int[::1] _sizes
    cdef i64[::1] _filled
    cdef double[::1] _powers
    cdef const u8[::1] _data
    cdef Py_ssize_t _size
    cdef bint _is_plain, _is_whole, _is_negative
    cdef u64 _mantissa
    cdef int _digits
    cdef Py_ssize_t _scale

    @cython.locals(row=Py_ssize_t, pos=Py_ssize_t, end=Py_ssize_t)
    cpdef bint fill(self, const u8[::1] data, const int[::1] ends) except -1

    @cython.locals(
        first=Py_ssize_t, total=Py_ssize_t, end_data=bytearray, ends="int[::1]", row=Py_ssize_t, texts=bytearray,
        at=Py_ssize_t, size=Py_ssize_t, start=Py_ssize_t,
    )
    cpdef tuple text(self, Py_ssize_t column)

    @cython.locals(expected=Py_ssize_t, column=Py_ssize_t)
    cdef Py_ssize_t _row(self, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t row) except -2

    @cython.locals(column=Py_ssize_t)
    cdef Py_ssize_t _column(self, Py_ssize_t start, Py_ssize_t end) except -2

    @cython.locals(first=Py_ssize_t, size=Py_ssize_t, index=Py_ssize_t)
    cdef inline bint _is_name(self, Py_ssize_t column, Py_ssize_t start, Py_ssize_t end) except -1

    @cython.locals(kind=int, cell=Py_ssize_t, start=Py_ssize_t, is_true=bint)
    cdef Py_ssize_t _field(self, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t column, Py_ssize_t row) except -2

    cdef inline Py_ssize_t _space(self, Py_ssize_t pos, Py_ssize_t end) except -2

    @cython.locals(index=Py_ssize_t)
    cdef Py_ssize_t _word(self, Py_ssize_t pos, Py_ssize_t end, bytes word) except -2

    @cython.locals(
        start=Py_ssize_t, shorter=Py_ssize_t, is_plain=bint, seen=u8, byte=u8, size=int,
    )
    cdef Py_ssize_t _string(self, Py_ssize_t pos, Py_ssize_t end) except -2

    @cython.locals(value=int, index=Py_ssize_t, digit=int)
    cdef int _unit(self, Py_ssize_t pos, Py_ssize_t end) except -2

    @cython.locals(first=Py_ssize_t)
    cdef Py_ssize_t _number(self, Py_ssize_t pos, Py_ssize_t end) except -2

    @cython.locals(byte=u8)
    cdef inline Py_ssize_t _run(self, Py_ssize_t pos, Py_ssize_t end) except -2

    @cython.locals(is_negative=bint, first=Py_ssize_t, value=Py_ssize_t)
    cdef Py_ssize_t _exponent(self, Py_ssize_t pos, Py_ssize_t end) except -2

    @cython.locals(value=i64)
    cdef bint _set_whole(self, Py_ssize_t cell) except -1

    @cython.locals(value=double)
    cdef bint _set_real(self, Py_ssize_t cell, Py_ssize_t start, Py_ssize_t stop) except -1

    @cython.locals(
        year=i64, month=i64, day=i64, rest=i64, days=i64, hour=i64, minute=i64, second=i64, micros=i64, unit=i64,
        first=Py_ssize_t,
    )
    cdef bint _set_time(self, Py_ssize_t cell, Py_ssize_t pos, Py_ssize_t stop, bint with_clock) except -1

    @cython.locals(hours=i64, minutes=i64, ahead=i64)
    cdef bint _set_zoned(self, Py_ssize_t cell, i64 micros, Py_ssize_t pos, Py_ssize_t stop) except -1

    @cython.locals(tens=u8, ones=u8)
    cdef inline int _two(self, Py_ssize_t pos, Py_ssize_t stop) except -2

    @cython.locals(byte=u8)
    cdef Py_ssize_t _skip(self, Py_ssize_t pos, Py_ssize_t end, int depth) except -2

    @cython.locals(closing=u8)
    cdef Py_ssize_t _skip_all(self, Py_ssize_t pos, Py_ssize_t end, int depth, bint with_names) except -2

    @cython.locals(index=Py_ssize_t)
    cdef bint _copy(self, Py_ssize_t start, bytearray target, Py_ssize_t at, Py_ssize_t size) except -1

    @cython.locals(stop=Py_ssize_t, byte=u8, unit=int)
    cdef bint _unescape(self, Py_ssize_t pos, bytearray target, Py_ssize_t at, Py_ssize_t size) except -1

cdef Py_ssize_t _put(bytearray target, Py_ssize_t at, int unit) except -1
cdef int _utf8_size(int unit) noexcept
cdef int _escaped(u8 byte) noexcept
cdef int _hex(u8 byte) noexcept
cdef int _month_days(i64 year, i64 month) noexcept
cdef i64 _days_since_1970(i64 year, i64 month, i64 day) noexcept
