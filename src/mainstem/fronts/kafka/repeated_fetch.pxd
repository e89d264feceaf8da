# Types for repeated_fetch.py when it is compiled; without a compiler nobody reads this file.
cimport cython
from mainstem.broker.partition cimport Partition
from mainstem.fronts.kafka.answer cimport Answer
from mainstem.kernel.log.stretch cimport Stretch
from mainstem.model.big_endian cimport int32_at, int64_at

cdef Py_ssize_t _KEY_FROM
cdef Py_ssize_t _OFFSET_BYTES

cdef class FetchRoute:
    cdef readonly tuple place
    cdef int _version, _rests
    cdef Partition _partition
    cdef Stretch _stretch
    cdef object _listener, _reading
    cdef bint _committed, _flexible
    cdef long long _head, _epoch, _max_bytes, _min_bytes, _most_bytes
    cdef Py_ssize_t _size, _offset_at, _offsets_bytes
    cdef bytes _before, _after, _told_before, _told_between

    cpdef object encourage(self)
    cdef object _give_up(self)
    cdef object _lay_out(self, int version, object topic)
    @cython.locals(at=Py_ssize_t, memory="const char*")
    cpdef bint matches(self, bytearray data, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(
        partition=Partition, answer=Answer, stretch=Stretch, chunks=list, told=bytes, offset="long long", high="long long",
        stable="long long", upto="long long", left="long long", room="long long", size="long long",
        end="long long", used="long long",
    )
    cpdef Answer answer(self, bytearray data, Py_ssize_t start, object on_ready)
    @cython.locals(chunks=list)
    cdef list _read(self, long long offset, long long room, long long upto)
    cdef bint _has_aborted(self, long long offset, long long end) except -1
    @cython.locals(head=bytearray)
    cdef list _around(self, long long correlation_id, bytes told, list chunks, long long size)
