from __future__ import annotations

import pytest

from receraser.aggregation.registry import AGGREGATIONS
from receraser.config import EngineConfig, resolve
from receraser.errors import UsageError
from receraser.methods import CUSTOM, METHODS, find_method, method_of
from receraser.partition.registry import PARTITIONS


def test_methods_are_found_by_their_names() -> None:
    assert list(METHODS) == ["retrain", "sisa", "grapheraser", "receraser", "spectral"]
    assert all(find_method(name) is method and method.name == name for name, method in METHODS.items())


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown method 'retain': did you mean 'retrain'\? \(known: .*retrain"):
        find_method("retain")
    with pytest.raises(UsageError, match="unknown method 'custom'"):
        find_method(CUSTOM)


@pytest.mark.parametrize("name", METHODS)
def test_the_parts_of_a_method_exist(name: str) -> None:
    method = METHODS[name]
    assert method.partition in PARTITIONS
    assert method.aggregation in AGGREGATIONS
    assert method.shards >= 1
    assert method.summary
    found = resolve(EngineConfig(method=name, device="cpu"))
    assert (found.partition, found.aggregation, found.shards) == (method.partition, method.aggregation, method.shards)


def test_retrain_is_one_shard_that_looks_at_no_data() -> None:
    method = find_method("retrain")
    assert method.shards == 1
    assert not PARTITIONS[method.partition].remembers_data
    assert not AGGREGATIONS[method.aggregation].learns


def test_combinations_have_one_name() -> None:
    combinations = {(method.partition, method.aggregation) for method in METHODS.values()}
    assert len(combinations) == len(METHODS)
    for method in METHODS.values():
        assert method_of(method.partition, method.aggregation) == method.name
    others = {(p, a) for p in PARTITIONS for a in AGGREGATIONS} - combinations
    assert {method_of(*one) for one in others} == {CUSTOM}
    assert CUSTOM not in METHODS
