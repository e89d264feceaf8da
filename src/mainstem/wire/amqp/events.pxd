# Types for events.py when it is compiled; without a compiler nobody reads this file.
cimport cython

cdef int _LOOK
cdef Py_ssize_t _FRAME_BYTES
cdef Py_ssize_t _HEAD_BYTES
cdef Py_ssize_t _ROUTE_AT
cdef Py_ssize_t _PROPERTIES_AT

cdef class Publishes:
    cdef readonly bytes route
    cdef readonly bytearray data
    cdef readonly Py_ssize_t channel, count, bytes, present, gap
    cdef readonly bint mandatory, immediate
    cdef Py_ssize_t _at, _seen, _seen_at

    @cython.locals(at=Py_ssize_t)
    cpdef Py_ssize_t find(self, Py_ssize_t index) except -1

    @cython.locals(size=Py_ssize_t, body_size=Py_ssize_t)
    cdef Py_ssize_t _end(self, Py_ssize_t at) except -1
