from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from mainstem.client.producing import murmur2, partition_of


@given(st.binary(max_size=40))
def test_keys_hash_as_kafkas_own_clients_do(key):
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_a_key_has_a_partition_that_exists(key, partitions):
    assert 0 <= partition_of(key, partitions) < partitions
