"""Fitting again from the rows in the store: what is compared, and what is said where it cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from receraser.execution.task import Task
from receraser.verify import replay as module
from receraser.verify.checks import examine
from receraser.verify.replay import replayed
from tests.contracts.worlds import checkerboard
from tests.forgetting.engines import Combination, Here
from tests.verify.conftest import World, changing, fitted


def kinds(ran: list[Task]) -> list[str]:
    return sorted(task.kind for task in ran)


def test_all(original: World) -> None:
    here = Here()
    check = replayed(original.examine()[0], "all", executor=here)
    assert check.ok, check.detail
    assert check.detail.startswith("every shard and the aggregation: fitted again from the rows in the store, the same")
    assert check.detail.endswith("the assignment was computed anew too")
    assert kinds(here.ran) == ["aggregation", "submodel", "submodel", "submodel"]


def test_affected_are_those_of_the_newest_certificate_or_of_one_that_is_named(original: World) -> None:
    case, _ = original.examine()
    for named in (None, case.issued[0][1]):
        one = named or case.newest
        retrained = one.certificate.shards["retrained"]
        data = None if named is None else case.evidence.certificate(one.sha256)
        here = Here()
        check = replayed(case, "affected", data, executor=here)
        assert check.ok, check.detail
        assert f"retrained by entry {one.entry.index}, forget" in check.detail
        assert kinds(here.ran) == ["aggregation", *["submodel"] * len(retrained)]


def test_a_certificate_that_retrained_nothing(world: World) -> None:
    with changing(world.store, world.keys) as engine:
        engine.forget(["person-nobody"])
    check = replayed(world.examine()[0], "affected", executor=Here())
    assert check.ok
    assert check.detail.startswith("entry 7 (forget) retrained no shard: there is nothing to fit again")


def test_affected_needs_a_certificate(tmp_path: Path) -> None:
    Combination("hash", "mean", "wmf").engine().fit(checkerboard().train).save(tmp_path / "store")
    check = replayed(examine(tmp_path / "store")[0], "affected", executor=Here())
    assert (check.ok, check.detail) == (False, "nobody certified the state: entry 0 (fit) has no certificate")


def test_a_sample_is_drawn(original: World, monkeypatch: pytest.MonkeyPatch) -> None:
    case, _ = original.examine()
    for shard in range(3):
        monkeypatch.setattr("secrets.randbelow", lambda n, shard=shard: shard % n)
        check = replayed(case, "sample", executor=Here())
        assert check.ok
        assert check.detail.startswith(f"shard {shard} of 3 (drawn at random) and the aggregation")


def test_a_sample_leaves_out_an_aggregation_that_looks_at_all_rows(tmp_path: Path) -> None:
    fitted(tmp_path / "store", tmp_path / "keys", Combination("hash", "static", "wmf"))
    here = Here()
    check = replayed(World(tmp_path / "store", tmp_path / "keys", (), b"").examine()[0], "sample", executor=here)
    assert check.ok
    assert "; the aggregation looks at all rows and was left out" in check.detail
    assert kinds(here.ran) == ["submodel"]


def test_an_assignment_that_is_inherited_is_taken_over(tmp_path: Path) -> None:
    world = World(tmp_path / "store", tmp_path / "keys", (), b"")
    fitted(world.store, world.keys, Combination("inbp", "mean", "wmf"))
    here = Here()
    check = replayed(world.examine()[0], "all", executor=here)
    assert check.ok, check.detail
    assert "partition" in kinds(here.ran), "nobody has changed it yet: it follows from the rows"
    with changing(world.store, world.keys) as engine:
        engine.forget(["person-01"])
    here = Here()
    check = replayed(world.examine()[0], "all", executor=here)
    assert check.ok, check.detail
    assert "the assignment was taken over" in check.detail
    assert "partition" not in kinds(here.ran)


def test_another_environment_is_named(original: World) -> None:
    other = Here(environment={"computed": "elsewhere", "probe": "7"})
    check = replayed(original.examine()[0], "all", executor=other)
    assert not check.ok
    assert "computed is 'elsewhere' here and 'here' in the store" in check.detail
    assert "probe is '7' here and 'not set' in the store" in check.detail
    assert other.ran == []


def test_a_store_that_is_damaged_is_not_replayed(world: World) -> None:
    case, _ = world.examine()
    next((world.store / "files").iterdir()).unlink()
    check = replayed(case, "all", executor=Here())
    assert not check.ok
    assert "cannot be read" in check.detail


def test_a_store_that_changes_meanwhile(world: World) -> None:
    case, _ = world.examine()
    with changing(world.store, world.keys) as engine:
        engine.forget(["person-08"])
    check = replayed(case, "all", executor=Here())
    assert (check.ok, "has changed since it was read" in check.detail) == (False, True)


def test_what_differs_is_named() -> None:
    array = np.zeros((2, 3), dtype=np.float32)
    faults = module._differing(
        "shard 3", {"a": array, "b": array, "c": array}, {"a": array + 1, "b": array[:1], "d": array}
    )
    assert "shard 3: a gives " in faults[0]
    assert faults[0].endswith("(6 of 6 entries differ)")
    assert faults[1].endswith("(of the shape (1, 3), not (2, 3))")
    assert faults[2:] == ["shard 3: c is missing in the store", "shard 3: d is not learned"]
