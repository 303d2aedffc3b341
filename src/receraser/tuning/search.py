"""`tune`: try configurations until the budget is spent, and return all trials; the best one is a configuration.

The objective is one metric on the validation rows. A trial that fails is written down with its reason, and the search
goes on; Ctrl-C ends it and keeps what was done.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from receraser.config import EngineConfig
from receraser.errors import ReceraserError, TrainingError, UsageError
from receraser.fingerprint import canonical_json
from receraser.protocols import Executor
from receraser.tuning.measuring import Validation
from receraser.tuning.problem import Problem
from receraser.tuning.space import with_settings
from receraser.tuning.study import Study, Trial, opened_study

__all__ = ["Budget", "Found", "Spread", "Told", "best_of", "configured", "tune"]

Told = Callable[["Sequence[Trial]", float], None]
"""`told(trials, seconds)`: called after every trial with all of them, and the seconds since the search began."""


@dataclass(frozen=True)
class Budget:
    """When a search ends: whichever comes first.

    Attributes
    ----------
    trials
        So many in all, those of an earlier run among them. The first is where the search starts.
    minutes
        No trial begins later; the last one is not cut short.
    """

    trials: int | None = 30
    minutes: float | None = None

    def __post_init__(self) -> None:
        if self.trials is None and self.minutes is None:
            raise UsageError("a search needs an end: give it a number of trials, or minutes")
        if self.trials is not None and self.trials < 1:
            raise UsageError(f"{self.trials} trials are too few; expected at least 1")
        if self.minutes is not None and not 0 < self.minutes < float("inf"):
            raise UsageError(f"minutes is {self.minutes}; expected a number above 0")

    def spent(self, trials: int, seconds: float) -> bool:
        """Say whether it is over."""
        over = self.minutes is not None and seconds >= 60 * self.minutes
        return over or (self.trials is not None and trials >= self.trials)


@dataclass(frozen=True)
class Spread:
    """What the best trial's settings, and those where the search started, reach with several seeds."""

    seeds: tuple[int, ...]
    best: tuple[float | None, ...]
    start: tuple[float | None, ...]


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found.

    Attributes
    ----------
    trials
        All of them, in their order.
    interrupted
        Whether somebody ended it before its time.
    seconds
        How long this run took; an earlier run's trials are not in it.
    """

    problem: Problem
    budget: Budget
    trials: Sequence[Trial]
    interrupted: bool
    seconds: float
    spread: Spread | None = None
    environment: Mapping[str, object] = dataclasses.field(default_factory=dict)

    @property
    def best(self) -> Trial:
        """The trial that reached most; of several, the first."""
        return best_of(self.trials)

    @property
    def failed(self) -> int:
        """How many trials failed."""
        return sum(one.value is None for one in self.trials)

    @property
    def config(self) -> EngineConfig:
        """The best trial's configuration, complete."""
        return configured(self.problem, self.best)


def best_of(trials: Sequence[Trial]) -> Trial:
    """Return the trial that reached most; of several, the first."""
    done = [one for one in trials if one.value is not None]
    if not done:
        raise TrainingError(_nothing(trials))
    return max(done, key=lambda one: one.value or 0.0)


def configured(problem: Problem, trial: Trial) -> EngineConfig:
    """Return the complete configuration of a trial."""
    return problem.base if trial.number == 0 else with_settings(problem.base, trial.settings)


def tune(
    problem: Problem,
    budget: Budget | None = None,
    *,
    study: Path | None = None,
    seeds: int = 1,
    executor: Executor | None = None,
    told: Told | None = None,
) -> Found:
    """Search.

    Parameters
    ----------
    budget
        By default 30 trials.
    study
        A file that holds the trials: one that is there already is gone on with.
    seeds
        With more than one, the best settings and those of the start are fitted with that many seeds in the end.
    executor
        Where fits are computed; by default worker processes on this machine.
    told
        Called after every trial.
    """
    budget, started = budget or Budget(), time.monotonic()
    spread, interrupted = None, False
    with (
        opened_study(problem, study) as trials,
        Validation(problem.train, problem.valid, problem.metric, executor=executor) as validation,
    ):
        try:
            while not budget.spent(len(trials.trials), time.monotonic() - started):
                _try_next(problem, trials, validation)
                if told is not None:
                    told(trials.trials, time.monotonic() - started)
            if seeds > 1 and any(one.value is not None for one in trials.trials):
                spread = _spread(problem, trials.trials, validation, seeds)
        except KeyboardInterrupt:
            interrupted = True
            trials.drop()
        environment = dict(validation.environment)
    seconds = time.monotonic() - started
    return Found(problem, budget, tuple(trials.trials), interrupted, seconds, spread, environment)


def _try_next(problem: Problem, study: Study, validation: Validation) -> None:
    """Try one more configuration and write down what it reached; what was tried before is not fitted again."""
    settings, number = study.ask(), len(study.trials)
    known = next((one for one in study.trials if _same(one.settings, settings)), None)
    if known is not None:
        seconds: dict[str, float] = {}
        study.tell(dataclasses.replace(known, number=number, seconds=seconds, facts={"the same as": known.number}))
        return
    trial = Trial(number, settings, None)
    try:
        found = validation.measure(configured(problem, trial))
    except ReceraserError as error:
        study.tell(dataclasses.replace(trial, reason=str(error)))
        return
    seconds = {stage: round(took, 3) for stage, took in found.seconds.items()}
    value = found.metrics[problem.metric]
    study.tell(
        dataclasses.replace(trial, value=value, metrics=dict(found.metrics), seconds=seconds, facts=dict(found.facts))
    )


def _spread(problem: Problem, trials: Sequence[Trial], validation: Validation, seeds: int) -> Spread:
    """Measure the best settings, and those of the start, with several seeds; one that fails has no value."""
    first = problem.base.seed

    def values(trial: Trial) -> tuple[float | None, ...]:
        found = [trial.value]
        for seed in range(first + 1, first + seeds):
            try:
                measured = validation.measure(dataclasses.replace(configured(problem, trial), seed=seed))
            except ReceraserError:
                found.append(None)
            else:
                found.append(measured.metrics[problem.metric])
        return tuple(found)

    best = best_of(trials)
    reached = values(best)
    return Spread(tuple(range(first, first + seeds)), reached, reached if best.number == 0 else values(trials[0]))


def _same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return canonical_json(one) == canonical_json(other)


def _nothing(trials: Sequence[Trial]) -> str:
    if not trials:
        return "no trial was finished, so there is nothing to choose; give the search more time"
    return f"all of {len(trials)} trials failed; the first: {trials[0].reason}"
