# Types for records.py when it is compiled; without a compiler nobody reads this file.
cimport cython

ctypedef unsigned long long u64
ctypedef unsigned int u32

cdef bint _COMPILED
cdef Py_ssize_t _FRAME_BYTES, _HEAD_BYTES, _PROPERTIES_AT, _HEADER_BYTES, _HEADER_FIXED
cdef Py_ssize_t _MAX_VARINT_BYTES, _ROOM_BYTES

@cython.locals(route=bytes, key=bytes, before=bytes, behind=bytes, at=Py_ssize_t, gap=Py_ssize_t)
cpdef encode_records(bytearray out, Py_ssize_t first_index, object publishes, Py_ssize_t i, Py_ssize_t j)

@cython.locals(
    before_size=Py_ssize_t, behind_size=Py_ssize_t, fixed=Py_ssize_t, to=Py_ssize_t, room=Py_ssize_t,
    length=Py_ssize_t, number=Py_ssize_t, properties_size=Py_ssize_t, body_size=Py_ssize_t, size=Py_ssize_t,
    needed=Py_ssize_t, wanted=Py_ssize_t, properties_at=Py_ssize_t,
)
cdef int _write_records(
    bytearray out, Py_ssize_t index, bytearray data, Py_ssize_t at, Py_ssize_t gap, Py_ssize_t count,
    bytes before, bytes behind,
) except -1

@cython.locals(raw=u64)
cdef Py_ssize_t _put_varint(bytearray out, Py_ssize_t to, u64 number) except -1

@cython.locals(index=Py_ssize_t, target="unsigned char*", source="const unsigned char*")
cdef Py_ssize_t _put(bytearray out, Py_ssize_t to, bytes part, Py_ssize_t size) except -1

@cython.locals(index=Py_ssize_t, target="unsigned char*", source="const unsigned char*")
cdef Py_ssize_t _put_from(
    bytearray out, Py_ssize_t to, bytearray data, Py_ssize_t start, Py_ssize_t size
) except -1

cdef u32 _u32(bytearray data, Py_ssize_t at) except? 0

@cython.locals(raw=u64, size=Py_ssize_t)
cdef Py_ssize_t _varint_size(u64 number) except -1

@cython.locals(raw=u64, out=bytearray, size=Py_ssize_t)
cdef bytes _varint(u64 number)
