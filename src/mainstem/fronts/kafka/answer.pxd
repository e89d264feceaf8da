# Types for answer.py when it is compiled; without a compiler nobody reads this file.
from mainstem.fronts.kafka.inbox cimport Slab

cdef class Answer:
    cdef object _on_ready
    cdef public list chunks
    cdef public str failure
    cdef public bint may_be_followed, cancelled, copied, silent, hurry_closes
    cdef public Py_ssize_t request_bytes, reserved, held
    cdef public Slab slab
    cdef public object on_cancel, hurry
