from __future__ import annotations

import pytest

from receraser.data.interactions import Interactions
from receraser.errors import UsageError
from receraser.methods import METHODS, find_method
from receraser.partition.whole import Whole


def test_methods_are_found_by_their_names() -> None:
    assert "retrain" in METHODS
    assert all(find_method(name) is method and method.name == name for name, method in METHODS.items())


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown method 'retain': did you mean 'retrain'\? \(known: .*retrain"):
        find_method("retain")


def test_retrain_is_one_shard_that_looks_at_no_data() -> None:
    method = find_method("retrain")
    rows = Interactions.from_pairs([("u", "a"), ("v", "b")])
    assert method.partitioner.assign(rows, valid=None, seed=0).train.tolist() == [0, 0]
    assert method.level == "L3"
    assert Whole.remembers_data is False


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_level_and_a_summary(name: str) -> None:
    assert METHODS[name].level in ("L0", "L1", "L2", "L3")
    assert METHODS[name].summary
