"""`Study`: the trials so far, and what to try next. All that is known of optuna is known here.

What is tried next is a function of the seed and of the trials before it: every trial has a sampler of its own, whose
seed is derived from the search's seed and the trial's number. So a search that was interrupted and taken up again tries
what it would have tried in one go. The first trial is where the search starts; until ten have
ended well they are by lot, then by TPE (Bergstra et al. 2011), setting by setting.

With a file the trials are written there as they end (optuna's journal, one line for each step; optuna's own tools read
it). A trial that was cut short counts for nothing and is tried again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from receraser.errors import UsageError
from receraser.seeds import derive
from receraser.tuning.problem import Problem
from receraser.tuning.space import Axis, Choice

if TYPE_CHECKING:
    import optuna

__all__ = ["Study", "Trial", "opened_study", "optuna_version"]

_NAME = "receraser tune"
_OUTCOME, _PROBLEM = "outcome", "problem"
_SEEDS = 2**32  # so many the sampler takes


@dataclass(frozen=True)
class Trial:
    """One configuration that was tried.

    Attributes
    ----------
    number
        From 0; 0 is where the search started.
    settings
        The values of what is searched, by the names of `--set`.
    value
        What it reached on the validation rows; None if it failed, and `reason` says why.
    metrics, seconds, facts
        All metrics at that cut; how long each stage took; which epochs were kept.
    """

    number: int
    settings: Mapping[str, object]
    value: float | None
    reason: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)


class Study:
    """Trials, and the way to the next one. Made by `opened_study`."""

    def __init__(self, study: optuna.Study, problem: Problem) -> None:
        self._study = study
        self._problem = problem
        self._asked: optuna.Trial | None = None
        self.trials = _finished(study)

    def ask(self) -> dict[str, object]:
        """Return the settings to try next."""
        import optuna

        space, number = self._problem.space, len(self.trials)
        seed = derive(self._problem.base.seed, "tune", number) % _SEEDS
        self._study.sampler = optuna.samplers.TPESampler(seed=seed)
        if number == 0:
            start = self._problem.start
            inside = {name: axis for name, axis in space.items() if axis.holds(start[name])}
            self._study.enqueue_trial({name: start[name] for name in inside})
            self._asked = self._study.ask({name: _distribution(axis) for name, axis in inside.items()})
            return start
        self._asked = self._study.ask({name: _distribution(axis) for name, axis in space.items()})
        return {name: space[name].value(drawn) for name, drawn in self._asked.params.items()}

    def tell(self, trial: Trial) -> None:
        """Write down how the trial that was asked for ended."""
        assert self._asked is not None, "ask first"
        self._asked.set_user_attr(_OUTCOME, asdict(trial))
        if trial.value is None:
            _fail(self._study, self._asked)
        else:
            self._study.tell(self._asked, trial.value)
        self._asked = None
        self.trials.append(trial)

    def drop(self) -> None:
        """Let go of a trial that was asked for and cut short."""
        if self._asked is not None:
            _fail(self._study, self._asked)
            self._asked = None


@contextmanager
def opened_study(problem: Problem, path: Path | None = None) -> Iterator[Study]:
    """Open the study of a problem: in a file, which is made or taken up again; without one, in memory.

    Raises
    ------
    UsageError
        Without optuna; if the file is no study, is one of another problem, or another process is at it.
    """
    try:
        import optuna
    except ImportError:
        raise UsageError(
            "a search needs optuna, which is not installed; install it with: pip install 'receraser[tune]'"
        ) from None
    shown = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with _locked(path):
            yield Study(_made(problem, path), problem)
    finally:
        optuna.logging.set_verbosity(shown)


def optuna_version() -> str:
    """Return which optuna it was."""
    import optuna

    return str(optuna.__version__)


@contextmanager
def _locked(path: Path | None) -> Iterator[None]:
    """Hold the file of a study, so that nobody else writes to it; a line that was cut short is taken off its end."""
    if path is None:
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise UsageError(f"the study {path} cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"another search is writing to the study {path}; wait for it, or name another file"
            ) from None
        whole = path.read_bytes()
        if whole and not _is_ours(whole):  # optuna would write to it first, and read afterwards
            raise UsageError(f"{path} is no study; name another file")
        os.truncate(handle, whole.rfind(b"\n") + 1)
        yield
    finally:
        os.close(handle)


def _is_ours(content: bytes) -> bool:
    """Say whether a file begins as a study of ours does."""
    try:
        first = json.loads(content[: content.index(b"\n")])
    except ValueError:
        return False
    return isinstance(first, dict) and first.get("study_name") == _NAME


def _made(problem: Problem, path: Path | None) -> optuna.Study:
    """Return optuna's study, new or as the file has it."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        storage = None if path is None else JournalStorage(JournalFileBackend(str(path)))
        study = optuna.create_study(storage=storage, study_name=_NAME, direction="maximize", load_if_exists=True)
    except (ValueError, KeyError) as error:  # a line in the middle of the journal
        raise UsageError(f"the study {path} is damaged ({error}); name another file") from None
    now = json.loads(json.dumps(problem.described()))
    then = study.user_attrs.get(_PROBLEM)
    if then is None:
        study.set_user_attr(_PROBLEM, now)
    elif then != now:
        other = [key for key in now if then.get(key) != now[key]]
        raise UsageError(
            f"the study {path} is of another search: its {' and '.join(other)} differ; name another file, or repeat "
            "the command that it was made with"
        )
    for one in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        _fail(study, one.number)  # whoever ran it is no more: the file is ours
    return study


def _finished(study: optuna.Study) -> list[Trial]:
    """Return the trials that ended, well or not; those that were cut short left no outcome, or one without a reason."""
    from optuna.trial import TrialState

    found = []
    for one in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL)):
        outcome = one.user_attrs.get(_OUTCOME)
        if outcome is not None and (one.state is TrialState.COMPLETE or outcome["reason"]):
            found.append(Trial(**outcome))
    return found


def _fail(study: optuna.Study, trial: optuna.Trial | int) -> None:
    from optuna.trial import TrialState

    study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)  # Ctrl-C may come just after it ended


def _distribution(axis: Axis) -> optuna.distributions.BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(axis, Choice):
        return CategoricalDistribution(axis.values)
    if isinstance(axis.low, int) and isinstance(axis.high, int):
        return IntDistribution(axis.low, axis.high, log=axis.log)
    return FloatDistribution(axis.low, axis.high, log=axis.log)
