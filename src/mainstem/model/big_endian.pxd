# Types for big_endian.py when it is compiled; without a compiler nobody reads this file.
cimport cython

cdef bint _COMPILED
cdef long long _SIGN, _LOW_32

cpdef int int16_at(bytearray data, Py_ssize_t at) except? -2

@cython.locals(high="long long", low="long long")
cpdef long long int32_at(bytearray data, Py_ssize_t at) except? -2
cpdef long long int64_at(bytearray data, Py_ssize_t at) except? -2
