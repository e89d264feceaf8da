# Types for scan.py when it is compiled; without a compiler nobody reads this file.
cimport cython

ctypedef unsigned long long u64
ctypedef unsigned int u32

cdef bint _COMPILED
cdef int _METHOD, _CONTENT_HEADER, _BODY, _HEARTBEAT, _END
cdef Py_ssize_t _FRAME_BYTES
cdef u32 _PUBLISH, _ACK, _REJECT, _NACK
cdef int _BASIC
cdef Py_ssize_t _ROUTE_AT, _SMALLEST_PUBLISH, _SMALLEST_HEADER, _SMALLEST_SIZE, _ANSWER_BYTES, _FIELDS_AT
cdef Py_ssize_t _HEADER_FIXED, _METHOD_ID_BYTES
cdef int _LOOK, _HEADERS, _DELIVERY_MODE, _PRIORITY, _TIMESTAMP, _UNKNOWN_FLAGS
cdef Py_ssize_t _LATER, _ASIDE
cdef u64 _MAX_TAG

cdef class Scanner:
    cdef public Py_ssize_t frame_max, channel_max, max_body_bytes, heartbeats
    cdef object _aside, _broken
    cdef Py_ssize_t _needed, _size
    cdef int _flags

    @cython.locals(events=list)
    cpdef tuple scan(self, bytearray buffer, Py_ssize_t start, Py_ssize_t end)

    @cython.locals(kind=int, channel=int, size=Py_ssize_t, stop=Py_ssize_t, index=u32, after=Py_ssize_t)
    cdef Py_ssize_t _scan(self, bytearray buffer, Py_ssize_t at, Py_ssize_t end, list events) except -1

    cdef int _check_head(self, int kind, int channel, Py_ssize_t size) except -1

    @cython.locals(
        channel=int, size=Py_ssize_t, frame=bytes, first=Py_ssize_t, count=Py_ssize_t, total=Py_ssize_t,
        present=int, after=Py_ssize_t,
    )
    cdef Py_ssize_t _publishes(self, bytearray buffer, Py_ssize_t at, Py_ssize_t end, list events) except -1

    @cython.locals(
        kind=int, its_channel=int, size=Py_ssize_t, class_id=int, weight=int, body_size=u64, flags=int,
        most=Py_ssize_t, stop=Py_ssize_t, after=Py_ssize_t, part=u64,
    )
    cdef Py_ssize_t _content(self, bytearray buffer, Py_ssize_t at, Py_ssize_t end, int channel) except -3

@cython.locals(size=Py_ssize_t, key_at=Py_ssize_t)
cdef _check_publish(int channel, bytes frame)

@cython.locals(
    channel=int, size=Py_ssize_t, index=u32, first=u64, last=u64, bits=int, multiple=bint, kind=int,
    start=Py_ssize_t,
)
cdef Py_ssize_t _answers(bytearray buffer, Py_ssize_t at, Py_ssize_t end, list events) except -1

@cython.locals(index=Py_ssize_t)
cdef bint _follows(bytearray buffer, Py_ssize_t at, Py_ssize_t end, Py_ssize_t start, u64 tag) except -1

@cython.locals(mask=int)
cdef bint _sound(bytearray data, Py_ssize_t at, Py_ssize_t stop, int flags) except -1

@cython.locals(index=Py_ssize_t, one="const unsigned char*", other="const unsigned char*", different="unsigned char")
cdef bint _equal(bytearray buffer, Py_ssize_t at, bytes frame, Py_ssize_t size) except -1

cdef u32 _u16(bytearray data, Py_ssize_t at) except? 0
cdef u32 _u32(bytearray data, Py_ssize_t at) except? 0
@cython.locals(high=u64)
cdef u64 _u64(bytearray data, Py_ssize_t at) except? 0
