# Types for journal.py when it is compiled; without a compiler nobody reads this file.
cimport cython
from mainstem.kernel.log.stage cimport Stage

cdef int _BATCH, _OWN_CRC
cdef Py_ssize_t _LARGE_BATCH_BYTES, _HEAD_BYTES

cdef class Append:
    cdef public object payload, done
    cdef public Stage stage
    cdef public tuple places
    cdef public int kind
    cdef public bint early
    cdef public long long subject, file_id, position

cdef class BatchAppend(Append):
    cdef public long long base, last, max_timestamp_ms

cdef class JournalFile:
    cdef public object file
    cdef public long long file_id, position, capacity, frames, filled_to

cdef class Round:
    cdef public list appends
    cdef public JournalFile file, sealed
    cdef public long long end, bytes
    cdef public bint plain, direct
    cdef public Stage stage

cdef class JournalWriter:
    cdef dict __dict__
    cdef object _pending, _staging
    cdef Stage _stage
    cdef public bint _idle, _waking

    cpdef object submit(self, Append append)
    @cython.locals(stage=Stage, following=Stage)
    cdef object _put_on_stage(self, Append append)
    @cython.locals(pending=object, appends=list, size=Py_ssize_t, early=bint, plain=bint, append=Append,
        stage=Stage)
    cdef tuple _take(self)
    @cython.locals(file_id="long long", position="long long", chunks=list, append=Append, size=Py_ssize_t, kind=int,
        flags=int, subject="long long")
    cdef list _frames(self, list appends, JournalFile active)
