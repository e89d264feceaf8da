# Types for log.py when it is compiled; without a compiler nobody reads this file.
cimport cython
from mainstem.kernel.log.journal cimport Append, BatchAppend, JournalFile, JournalWriter, Round
from mainstem.kernel.log.places cimport PlaceTable

cdef long long _APPEND_OVERHEAD_BYTES

cdef class Log:
    cdef dict __dict__
    cdef public JournalWriter _writer
    cdef public PlaceTable _table
    cdef public JournalFile _active
    cdef public object on_synced
    cdef public long long _pending_bytes, _sure_bytes, _reserve, submitted, settled, bytes_written, rounds_written
    cdef public double _round_bytes
    cdef public tuple _synced

    cpdef bint has_room(self, long long size) except -1
    @cython.locals(append=BatchAppend)
    cpdef bint append_batch(
        self, long long partition, object batch, long long base, long long last, long long max_timestamp_ms,
        object done, bint early=*
    ) except -1
    @cython.locals(append=Append, appends=list)
    cpdef object _on_round(self, Round done)
