# Types for inbox.py when it is compiled; without a compiler nobody reads this file.
cimport cython
from mainstem.model.big_endian cimport int16_at, int32_at

cdef class Slab:
    cdef public bytearray data
    cdef public object view
    cdef public Py_ssize_t frames
    cdef public bint full

cdef class Inbox:
    cdef public Py_ssize_t max_bytes, frame_start, frame_end
    cdef public Slab slab
    cdef list _spare
    cdef Py_ssize_t _next_size, _spare_bytes, _start, _end, _wanted

    @cython.locals(have=Py_ssize_t, needed=Py_ssize_t, free=Py_ssize_t)
    cpdef object room(self)
    cpdef object received(self, Py_ssize_t count)
    cpdef object next_frame(self)
    @cython.locals(have=Py_ssize_t, size=Py_ssize_t)
    cpdef bint take_frame(self) except -1
    cpdef object give_back(self, Slab slab)
    cpdef int peek_int16(self) except? -2
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t, old=Slab)
    cdef object _new_slab(self, Py_ssize_t have)
    @cython.locals(slab=Slab)
    cdef Slab _fresh(self, Py_ssize_t size)
    @cython.locals(size=Py_ssize_t)
    cdef object _keep(self, Slab slab)
