# Types for places.py when it is compiled; without a compiler nobody reads this file.
cimport cython
from mainstem.kernel.log.journal cimport BatchAppend
from mainstem.model.batch cimport leader_epoch

cdef class PlaceTable:
    cdef public long long file_id
    cdef public set targets
    cdef public list moved
    cdef dict _rows, _bytes
    cdef object _base, _last, _position, _size, _top_ms, _epoch
    cdef bytearray _link

    @cython.locals(
        append=BatchAppend, row=Py_ssize_t, size=Py_ssize_t, top_ms="long long", last_ms="long long", total=dict,
        by_partition=dict, bases=list, lasts=list, positions=list, sizes=list, epochs=list,
    )
    cpdef object add_batches(self, list appends)
