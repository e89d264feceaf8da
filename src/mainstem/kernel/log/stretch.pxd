# Types for stretch.py when it is compiled; without a compiler nobody reads this file.
cimport cython

cdef class Stretch:
    cdef public long long next_offset
    cdef readonly long long file_id
    cdef long long _mark, _moves
    cdef object _reader
    cdef list _positions, _ends, _afters
    cdef Py_ssize_t _at

    cpdef bint add(self, object place) except -1
    @cython.locals(
        positions=list, ends=list, afters=list, first=Py_ssize_t, at=Py_ssize_t, count=Py_ssize_t, doubted=bint,
        left="long long", size="long long", start="long long", end="long long",
    )
    cpdef list take(self, long long offset, long long max_bytes, long long upto)
    @cython.locals(found=list, at=Py_ssize_t, start="long long", end="long long", position="long long")
    cdef list _slices(self, object file, Py_ssize_t first, Py_ssize_t after)
