# Types for record_check.py when it is compiled; without a compiler nobody reads this file.
cimport cython

ctypedef unsigned long long u64
ctypedef long long i64
ctypedef const unsigned char[::1] bytes_t

cdef i64 _MAX_DELTA_MS
cdef i64 _MIN_BODY_BYTES
cdef i64 _MIN_HEADER_BYTES
cdef int _INT
cdef int _LONG

@cython.locals(
    end=Py_ssize_t, max_delta=i64, keyless=Py_ssize_t, index=Py_ssize_t, raw=u64, more=u64, size=i64,
    stop=Py_ssize_t, time_delta=i64,
)
cpdef tuple check(bytes_t data, Py_ssize_t pos, Py_ssize_t first, Py_ssize_t count)

@cython.locals(pos=Py_ssize_t, found_time=i64, found_offset=i64)
cpdef tuple first_since(bytes_t data, Py_ssize_t count, i64 time_delta, i64 offset_delta)

@cython.locals(pos=Py_ssize_t, found_time=i64, found_offset=i64, top_offset=i64, top_time=i64)
cpdef tuple latest(bytes_t data, Py_ssize_t count, i64 offset_delta)

@cython.locals(stop=Py_ssize_t, index=Py_ssize_t, size=i64, _=i64, found=list)
cpdef list without_key(bytes_t data, Py_ssize_t pos, Py_ssize_t count, Py_ssize_t most)

@cython.locals(size=i64, stop=Py_ssize_t, time_delta=i64, offset_delta=i64)
cdef (i64, i64, Py_ssize_t) _times(bytes_t data, Py_ssize_t pos) except *

@cython.locals(count=i64, size=i64)
cdef _check_headers(bytes_t data, Py_ssize_t pos, Py_ssize_t stop)

@cython.locals(size=i64)
cdef Py_ssize_t _after_bytes(bytes_t data, Py_ssize_t pos, Py_ssize_t stop) except -1

@cython.locals(raw=u64, more=u64)
cdef (i64, Py_ssize_t) _varint(bytes_t data, Py_ssize_t pos, int widest) except *

@cython.locals(more=u64, shift=int, byte="unsigned char")
cdef (u64, Py_ssize_t) _rest(bytes_t data, Py_ssize_t pos, u64 value, int widest) except *
