# Types for batch.py when it is compiled; without a compiler nobody reads this file.
cimport cython

cdef int _NOT_FOR_PRODUCERS

@cython.locals(
    size=Py_ssize_t, fields=tuple, length="long long", magic=int, crc="unsigned int", attributes=int, last_delta=int,
    producer_id="long long", sequence=int, count=int,
)
cpdef tuple checked_fields(object buf, Py_ssize_t max_bytes)

@cython.locals(at=Py_ssize_t)
cdef object _crc(object signed)

cpdef object place_batch(object buf, object base_offset, object leader_epoch, object pos=*)

cpdef int leader_epoch(object buf, object pos=*) except? -2
