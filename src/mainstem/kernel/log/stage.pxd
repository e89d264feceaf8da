# Types for stage.py when it is compiled; without a compiler nobody reads this file.
cimport cython

cdef class Stage:
    cdef public object buffer
    cdef public Py_ssize_t lead, end, count
    cdef public long long position
    cdef public bint plain

    cpdef object begin(self, long long position)
    @cython.locals(size=Py_ssize_t, at=Py_ssize_t, stop=Py_ssize_t)
    cpdef object put(self, object payload)
    @cython.locals(at=Py_ssize_t, stop=Py_ssize_t, index=Py_ssize_t)
    cpdef object put_heads(self, list frames)
