# Types for deliver.py when it is compiled; without a compiler nobody reads this file.
cimport cython

ctypedef unsigned long long u64
# where route is and its size, where the properties are and their size
ctypedef (Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t) parts_t

cdef bint _COMPILED
cdef Py_ssize_t _FRAME_BYTES, _HEADER_FIXED, _ROUTE_HEADER_BYTES, _AMQP_HEADER_BYTES, _AROUND_BYTES
cdef Py_ssize_t _ROOM_BYTES
cdef int _END_OCTET
cdef bytes _ROUTE_HEADER, _AMQP_HEADER, _CLASS_WEIGHT

cdef class Deliveries:
    cdef readonly int channel
    cdef public Py_ssize_t frame_max
    cdef readonly bint with_offset
    cdef bytes _before
    cdef object _stream

    @cython.locals(index=Py_ssize_t, done=Py_ssize_t, data=bytes, spans=list)
    cpdef encode(
        self, bytearray out, u64 delivery_tag, bint again, object batch, Py_ssize_t first, Py_ssize_t stop
    )

    @cython.locals(index=Py_ssize_t)
    cdef Py_ssize_t _usual(
        self, bytearray out, u64 delivery_tag, bint again, bytes data, list spans, Py_ssize_t first,
        Py_ssize_t stop,
    ) except -1

    @cython.locals(
        before=bytes, channel=int, most=Py_ssize_t, before_size=Py_ssize_t, length=Py_ssize_t, to=Py_ssize_t,
        room=Py_ssize_t, index=Py_ssize_t, span=tuple, end=Py_ssize_t, body_at=Py_ssize_t,
        body_size=Py_ssize_t, at=Py_ssize_t, route_at=Py_ssize_t, route_size=Py_ssize_t, raw_at=Py_ssize_t,
        raw_size=Py_ssize_t, needed=Py_ssize_t, wanted=Py_ssize_t,
    )
    cdef Py_ssize_t _write(
        self, bytearray out, u64 delivery_tag, bint again, bytes data, list spans, Py_ssize_t first,
        Py_ssize_t stop,
    ) except -1

@cython.locals(route_size=Py_ssize_t, route_at=Py_ssize_t, raw_size=Py_ssize_t, raw_at=Py_ssize_t)
cdef parts_t _parts(bytes data, Py_ssize_t at, Py_ssize_t end) except *

@cython.locals(
    index=Py_ssize_t, one="const unsigned char*", other="const unsigned char*", different="unsigned char"
)
cdef bint _begins(bytes data, Py_ssize_t at, Py_ssize_t end, bytes name, Py_ssize_t size) except -1

@cython.locals(raw=Py_ssize_t)
cdef (Py_ssize_t, Py_ssize_t) _size_at(bytes data, Py_ssize_t at) except *

@cython.locals(target="unsigned char*")
cdef Py_ssize_t _put_head(bytearray out, Py_ssize_t to, int kind, int channel, Py_ssize_t size) except -1

@cython.locals(index=int, target="unsigned char*")
cdef Py_ssize_t _put_u64(bytearray out, Py_ssize_t to, u64 number) except -1

@cython.locals(index=Py_ssize_t, target="unsigned char*", source="const unsigned char*")
cdef Py_ssize_t _put(bytearray out, Py_ssize_t to, bytes data, Py_ssize_t start, Py_ssize_t size) except -1
