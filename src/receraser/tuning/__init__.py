"""Hyperparameter search that anybody can repeat: validation rows decide, the test rows have no way in. Needs optuna.

    problem = Problem.of(train, valid, EngineConfig(model="wmf"))      # what to search, on which rows, by which metric
    found = tune(problem, Budget(trials=30), study=Path("wmf.study"))  # the same trials every time; resumable
    found.config                                                      # the best: Engine.from_config(found.config)

`problem` says what is searched, `space` and `defaults` where, `study` what is tried next, `measuring` what it is worth,
`search` puts them together; `preset` and `record` write down what came out (docs/tuning.md).
"""

from __future__ import annotations

from receraser.tuning.problem import Problem
from receraser.tuning.search import Budget, Found, Spread, tune
from receraser.tuning.space import Choice, Range, read_space
from receraser.tuning.study import Trial

__all__ = ["Budget", "Choice", "Found", "Problem", "Range", "Spread", "Trial", "read_space", "tune"]
