# Types for connection.py when it is compiled; without a compiler nobody reads this file.
cimport cython
from mainstem.fronts.kafka.answer cimport Answer
from mainstem.fronts.kafka.inbox cimport Inbox, Slab
from mainstem.fronts.kafka.repeated cimport RepeatedProduce, Repeats

from mainstem.model.big_endian cimport int16_at

cdef int PRODUCE, FETCH

cdef class Connection:
    cdef public object session, opened_at, last_active, lively_at, peer
    cdef object _server, _dispatcher, _transport, _answers, _when_ready, _sending_since, _front_since
    cdef Inbox _inbox
    cdef bint _paused_reading, _paused_writing, _closed, _draining, _left, _send_planned, _work_planned, _taking
    cdef int _plain_socket
    cdef Py_ssize_t _reserved, _reserved_rest, _in_flight_bytes, _repeated, _unsent, _received, _answered, _front

    cpdef object get_buffer(self, Py_ssize_t sizehint)
    cpdef object buffer_updated(self, Py_ssize_t nbytes)
    @cython.locals(inbox=Inbox, planned_before=bint, repeats=Repeats, until=double)
    cpdef object _work(self)
    @cython.locals(last=Answer)
    cdef bint _may_take(self) except -1
    @cython.locals(reserved=Py_ssize_t, answer=Answer)
    cdef object _take(self, Slab slab, Py_ssize_t start, Py_ssize_t end)
    @cython.locals(repeats=Repeats, answer=Answer)
    cdef Answer _start(self, Slab slab, Py_ssize_t start, Py_ssize_t end)
    cpdef object _on_ready(self)
    cpdef object _send_ready(self)
    @cython.locals(answer=Answer, before=Py_ssize_t, inbox=Inbox, chunks=list, ready=list)
    cdef bint _send(self) except -1
    cdef object _settle(self, Answer answer)
    cdef object _write(self, list chunks)
    cdef object _count_unsent(self)
    @cython.locals(blocked=bint, wanted=Py_ssize_t, inbox=Inbox)
    cdef object _adjust_reading(self)
