# Types for record_loop.py when it is compiled; without a compiler nobody reads this file.
cimport cython

ctypedef unsigned long long u64
ctypedef long long i64
# start, stop, timestamp delta, offset delta, key start and size, value start and size, headers start
ctypedef (Py_ssize_t, Py_ssize_t, i64, i64, Py_ssize_t, i64, Py_ssize_t, i64, Py_ssize_t) span_t

cdef i64 _MAX_DELTA_MS
cdef i64 _MIN_DELTA_MS
cdef bint _COMPILED
cdef i64 _MAX_COLUMN_BYTES
cdef i64 _MAX_TIME_MS
cdef i64 _MIN_BODY_BYTES
cdef i64 _MIN_HEADER_BYTES

@cython.locals(
    records=list, pos=Py_ssize_t, end=Py_ssize_t, lowest=i64, _start=Py_ssize_t, time_delta=i64, delta=i64,
    key_at=Py_ssize_t, key_size=i64, value_at=Py_ssize_t, value_size=i64, at=Py_ssize_t, timestamp_ms=i64,
)
cpdef list decode(bytes data, Py_ssize_t count, i64 last_delta, i64 base_offset, i64 base_ms, object append_ms)

@cython.locals(spans=list, pos=Py_ssize_t, end=Py_ssize_t, lowest=i64, delta=i64, span=span_t)
cpdef list scan(bytes data, Py_ssize_t count, i64 last_delta)

@cython.locals(
    spans=list, pos=Py_ssize_t, end=Py_ssize_t, at=Py_ssize_t, number=Py_ssize_t, size=i64, span=span_t
)
cpdef list pick(bytes data, object numbers)

@cython.locals(index=Py_ssize_t, source="const unsigned char*", to="unsigned char*")
cdef void _copy(bytes data, Py_ssize_t start, bytearray target, Py_ssize_t at, Py_ssize_t size)

cdef i64 _microseconds(i64 time_ms) noexcept

@cython.locals(
    start=Py_ssize_t, stop=Py_ssize_t, raw=u64, size=i64, time_delta=i64, delta=i64, key_at=Py_ssize_t,
    key_size=i64, value_at=Py_ssize_t, value_size=i64,
)
cdef span_t _span(bytes data, Py_ssize_t pos, Py_ssize_t end) except *

@cython.locals(value=u64, more=u64, shift=int, byte="unsigned char")
cdef (u64, Py_ssize_t) _long_varint(bytes data, Py_ssize_t pos, u64 first) except *

@cython.locals(raw=u64)
cdef (i64, Py_ssize_t) _read_varint(bytes data, Py_ssize_t pos) except *

@cython.locals(count=i64, size=i64, name=str, found=list)
cdef tuple _headers(bytes data, Py_ssize_t pos, Py_ssize_t stop)

@cython.locals(count=i64, size=i64)
cdef _check_headers(bytes data, Py_ssize_t pos, Py_ssize_t stop)

@cython.locals(max_ms=i64, delta=i64, timestamp_ms=i64, headers=bytes)
cpdef i64 encode(bytearray out, object records, i64 base_ms) except? -1

@cython.locals(time_raw=u64, delta_raw=u64, key_raw=u64, value_raw=u64, size=u64)
cpdef append_record(bytearray out, i64 time_delta, i64 delta, bytes key, bytes value, bytes headers)

@cython.locals(out=bytearray, raw_name=bytes)
cpdef bytes encode_headers(tuple headers)

@cython.locals(out=bytearray, more=bytes, count=i64, pos=Py_ssize_t, _count=i64, more_at=Py_ssize_t)
cpdef bytes add_headers(bytes headers, tuple extra)

@cython.locals(size=int)
cdef u64 _varint_size(u64 raw) noexcept

cdef bint _append_varint(bytearray out, u64 raw) except -1

cdef class Columns:
    cdef public Py_ssize_t capacity, rows, null_keys, null_values, held_bytes
    cdef public bytearray offset_data, time_data, key_end_data, value_end_data, key_valid, value_valid, keys, values
    cdef public bint with_headers
    cdef public list headers
    cdef tuple _own_holders
    cdef i64[::1] _offsets
    cdef i64[::1] _times
    cdef int[::1] _key_ends
    cdef int[::1] _value_ends

    @cython.locals(
        base_offset=i64, last_delta=i64, base_ms=i64, same_time=bint, pos=Py_ssize_t, end=Py_ssize_t, lowest=i64,
        row=Py_ssize_t, key_end=i64, value_end=i64, _start=Py_ssize_t, time_delta=i64, delta=i64,
        key_at=Py_ssize_t, key_size=i64, value_at=Py_ssize_t, value_size=i64, at=Py_ssize_t, offset=i64,
    )
    cpdef add(self, bytes data, Py_ssize_t count, tuple base, object append_ms, i64 first, i64 stop)
