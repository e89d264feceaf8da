# Types for publisher.py when it is compiled; without a compiler nobody reads this file.
cimport cython
from mainstem.broker.partition cimport Partition, Topic
from mainstem.kernel.log.log cimport Log
from mainstem.model.batch cimport checked_fields, place_batch

cdef class Publisher:
    cdef Log _log
    cdef object _reserve, _clock, _producer_expiry_ms
    cdef public long long messages, bytes

    @cython.locals(
        fields=tuple, size=Py_ssize_t, count="long long", producer_id="long long", said_ms="long long",
        max_timestamp_ms="long long",
        now_ms="long long", base="long long", last="long long", append_time="long long", early=bint,
        copied=bint,
    )
    cpdef tuple publish(self, Partition partition, object batch, object done, object join_transaction=*, object looked=*)
