from __future__ import annotations

import subprocess
import sys

import pytest

from receraser import settings
from receraser.errors import UsageError
from receraser.partition.registry import PARTITIONS, make_partitioner


def test_every_partition_is_known_by_its_name() -> None:
    assert list(PARTITIONS) == ["whole", "hash", "random", "ubp", "ibp", "inbp", "bekm", "blpa"]
    assert {name: make_partitioner(name, {}).name for name in PARTITIONS} == {name: name for name in PARTITIONS}


def test_what_reaches_which_level() -> None:
    assert [name for name, part in PARTITIONS.items() if not part.remembers_data] == ["whole", "hash", "random"]
    assert [n for n in PARTITIONS if make_partitioner(n, {}).user_atomic] == ["whole", "hash", "ubp", "bekm", "blpa"]


@pytest.mark.parametrize("name", PARTITIONS)
def test_settings_take_the_types_a_configuration_knows(name: str) -> None:
    assert set(settings.kinds(PARTITIONS[name]).values()) <= {int, float, str}
    assert make_partitioner(name, {}).n_shards == (1 if name == "whole" else 10)


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown partition 'inpb': did you mean 'inbp'\?"):
        make_partitioner("inpb", {})
    with pytest.raises(UsageError, match=r"the partition ubp has no setting 'slak': did you mean 'slack'\?"):
        make_partitioner("ubp", {"slak": 1.5})


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("ubp", {"slack": 0.9}, "slack is 0.9; expected a number of at least 1"),
        ("ubp", {"capacity": "items"}, "unknown capacity 'items'"),
        ("ibp", {"capacity": "users"}, "unknown capacity 'users'"),
        ("inbp", {"embeddings": "svd"}, "unknown embeddings 'svd'"),
        ("inbp", {"device": "gpu"}, "unknown device 'gpu'"),
        ("bekm", {"rows": "item"}, "unknown rows 'item'"),
        ("blpa", {"max_iterations": 0}, "max_iterations is 0"),
        ("blpa", {"n_shards": 2.5}, "n_shards is 2.5; expected a whole number"),
    ],
)
def test_settings_out_of_range(name: str, values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_partitioner(name, values)


def test_looking_a_partition_up_does_not_wait_for_torch() -> None:
    script = "import sys, receraser.partition.registry; print('torch' in sys.modules or 'numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
