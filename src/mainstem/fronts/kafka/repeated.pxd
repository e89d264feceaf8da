# Types for repeated.py when it is compiled; without a compiler nobody reads this file.
cimport cython
from mainstem.broker.partition cimport Partition
from mainstem.broker.publisher cimport Publisher
from mainstem.fronts.kafka.answer cimport Answer
from mainstem.fronts.kafka.inbox cimport Slab
from mainstem.fronts.kafka.repeated_fetch cimport FetchRoute
from mainstem.model.big_endian cimport int32_at

cdef Py_ssize_t _KEY_FROM
cdef Py_ssize_t _LENGTH_BYTES

cdef class Route:
    cdef Partition partition
    cdef object pack
    cdef readonly Py_ssize_t size
    cdef bytes before, after

cdef class RepeatedProduce(Answer):
    cdef Route _route
    cdef object _base, _append_time
    cdef int _correlation_id
    cdef bint _on_disk

    cpdef object placed(self, object base, object append_time)

cdef class Repeats:
    cdef object _session, _topics, _access, _topics_version, _access_version, _principal
    cdef Publisher _publisher
    cdef dict _routes
    cdef FetchRoute _fetch
    cdef bytes _fetch_seen
    cdef long long _head
    cdef Py_ssize_t _tags, _key_end

    cdef object _forget(self)
    cdef bint _has_changed(self) except -1
    cpdef object refresh(self)
    @cython.locals(route=FetchRoute, answer=Answer)
    cpdef Answer start_fetch(self, Slab slab, Py_ssize_t start, Py_ssize_t end, object on_ready)
    @cython.locals(
        data=bytearray, memory="const char*", at=Py_ssize_t, route=Route, answer=RepeatedProduce, base=object,
        append_time=object,
    )
    cpdef RepeatedProduce start(self, Slab slab, Py_ssize_t start, Py_ssize_t end, object on_ready)

@cython.locals(value="long long", shift=int, byte=int)
cdef Py_ssize_t _behind_length(bytearray frame, Py_ssize_t at, Py_ssize_t end) except -1
