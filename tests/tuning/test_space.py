from __future__ import annotations

from pathlib import Path

import pytest

from receraser.aggregation.registry import AGGREGATIONS
from receraser.config import EngineConfig, resolve
from receraser.errors import UsageError
from receraser.methods import METHODS
from receraser.models.registry import FACTOR_MODELS, MODELS
from receraser.partition.registry import PARTITIONS
from receraser.tuning import Choice, Range, read_space
from receraser.tuning.defaults import AGGREGATION_SPACES, MODEL_SPACES, PARTITION_SPACES, PARTS, default_space
from receraser.tuning.space import as_tables, checked, settings_of, with_settings
from tests.tuning.worlds import SPECTRAL

BASE = resolve(SPECTRAL)


def test_every_part_has_a_space() -> None:
    assert set(MODEL_SPACES) == set(MODELS)
    assert set(PARTITION_SPACES) == set(PARTITIONS)
    assert set(AGGREGATION_SPACES) == set(AGGREGATIONS)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", MODELS)
def test_the_default_spaces_are_spaces(method: str, model: str) -> None:
    """Of settings that there are, with values that the parts take."""
    if method != "retrain" and model not in FACTOR_MODELS and (method, model) != ("spectral", "gram"):
        return
    base = resolve(EngineConfig(method=method, model=model, device="cpu"))
    space = default_space(base, PARTS)
    assert checked(space, base) == space
    assert space
    assert not {"dim", "aggregation.rank", "aggregation.polish"} & set(space), "methods are compared at equal size"
    assert not [name for name in default_space(base) if name.startswith("partition.")], "only if asked for"


def test_of_gram_in_shards_nothing_is_searched_that_changes_nothing_or_fails() -> None:
    base = resolve(EngineConfig(method="spectral", model="gram"))
    own = resolve(EngineConfig(model="gram"))
    assert set(default_space(base)) == {*default_space(own), "aggregation.width"}


def test_wmf_has_another_space_by_gradient_steps() -> None:
    base = resolve(EngineConfig(method="retrain", model="wmf", device="cpu", hyperparameters={"solver": "adagrad"}))
    assert "learning_rate" in default_space(base)
    assert "regularization" not in default_space(base)
    with pytest.raises(UsageError, match="unknown part 'modle' to search: did you mean 'model'"):
        default_space(base, ["modle"])


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text(
        "[hyperparameters]\nmissing_weight = { low = 0.01, high = 1, log = true }\nn_sweeps = { low = 2, high = 6 }\n"
        '[aggregation_settings]\nmerge = ["concat", "product"]\n[partition_settings]\n'
    )
    space = checked(read_space(file), BASE)
    assert space == {
        "missing_weight": Range(0.01, 1.0, log=True),
        "n_sweeps": Range(2, 6),
        "aggregation.merge": Choice(("concat", "product")),
    }
    assert isinstance(space["missing_weight"].ends()[1], float), "the setting is a float, the file's number was whole"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[hyperparameters", "not valid TOML"),
        ("", "there is nothing to search"),
        ("[hyperparameter]\ndim = [8]", "unknown table 'hyperparameter': did you mean 'hyperparameters'"),
        ("hyperparameters = 3", r"expected a table, as in \[hyperparameters\]"),
        ("[hyperparameters]\ndim = 8", "hyperparameters.dim is 8; expected a list of choices, or a range"),
        ("[hyperparameters]\ndim = []", "expected at least one number"),
        ("[hyperparameters]\ndim = { low = 1, hihg = 2 }", "unknown key 'hihg': did you mean 'high'"),
        ("[hyperparameters]\ndim = { low = 1 }", "expected a list of choices, or a range"),
        ("[hyperparameters]\ndim = { low = 8, high = 4 }", "dim is from 8 to 4; expected low to be less than high"),
        ("[hyperparameters]\ndim = { low = 1.5, high = 4.5 }", "dim is 1.5 there; expected a value such as 4"),
        ("[hyperparameters]\nn_sweep = [1]", "there is no setting 'n_sweep' to search: did you mean 'n_sweeps'"),
        ("[hyperparameters]\ndevice = ['cpu']", "there is no setting 'device' to search"),
        ("[hyperparameters]\nsolver = { low = 1, high = 2 }", "solver is no number; expected a list of choices"),
        ("[hyperparameters]\nsolver = ['als', 'sgd']", "with solver = 'sgd': wmf: unknown solver 'sgd'"),
        (
            "[hyperparameters]\ndropout = { low = 0, high = 1.5 }",
            "with dropout = 1.5: wmf: dropout is 1.5; expected less",
        ),
        (
            "[hyperparameters]\nregularization = { low = 0.0, high = 1.0, log = true }",
            "regularization is from 0.0 by decades; expected low to be more than 0",
        ),
    ],
)
def test_a_bad_space_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "space.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        checked(read_space(file), BASE, str(file))
    assert str(file) in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_space_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_space(tmp_path / "nowhere.toml")


def test_drawn_numbers_are_short() -> None:
    assert Range(0.001, 0.1).value(0.0123456) == 0.0123
    assert Range(0.00123456, 0.1).value(0.00123457) == 0.00123456, "never outside"
    assert Range(4, 16).value(7) == 7
    assert Range(0.0, 1.0).as_dict() == {"low": 0.0, "high": 1.0}


def test_settings_go_by_the_names_of_set() -> None:
    changed = with_settings(BASE, {"dim": 6, "aggregation.merge": "product", "regularization": 1e-05})
    found = settings_of(changed)
    assert (found["dim"], found["aggregation.merge"], found["regularization"]) == (6, "product", 1e-05)
    assert as_tables({"partition.slack": 1.5}) == {"partition_settings": {"slack": 1.5}}
