from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from receraser import acts, fitting
from receraser.errors import TrainingError
from receraser.fitting import _meanwhile
from receraser.state import State
from tests.forgetting.engines import Combination, rows_of

PAIRS = [(f"u{user}", f"i{item}") for user in range(12) for item in range(8) if (user + item) % 3]


def test_what_is_done_meanwhile_is_done_by_another_thread_and_at_the_end() -> None:
    done: list[object] = []
    with _meanwhile([lambda: done.append(threading.current_thread()), lambda: done.append("last")]):
        pass
    assert done[0] is not threading.current_thread()
    assert done[1] == "last"


def test_whoever_waits_is_told_for_how_long() -> None:
    waited: list[float] = []
    with _meanwhile([lambda: time.sleep(0.2)], waited.append):
        pass
    assert 0.1 < waited[0] < 5
    with _meanwhile([lambda: None], waited.append):
        time.sleep(0.2)
    assert waited[1] < 0.1


@pytest.mark.parametrize("place", ["the plan", "what is kept", "the tables"])
def test_nothing_that_a_forget_waits_for_is_left_out_of_its_seconds(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(function: Callable[..., object]) -> Callable[..., object]:
        def late(*given: object, **how: object) -> object:
            time.sleep(0.3)
            return function(*given, **how)

        return late

    engine = Combination("hash", "spectral", "wmf").engine().fit(rows_of(PAIRS))
    owner, name = {
        "the plan": (acts, "plan"),
        "what is kept": (State, "keeping"),
        "the tables": (fitting, "_check_rows"),
    }[place]
    monkeypatch.setattr(owner, name, slow(getattr(owner, name)))
    engine.forget(["u1"])
    assert engine.seconds["partition"] > 0.2


def test_nothing_to_do_takes_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", lambda self: pytest.fail("a thread for nothing"))
    with _meanwhile([]):
        pass


def fails() -> None:
    raise MemoryError("no room for the tables")


def test_an_error_meanwhile_is_raised_once_when_the_other_is_done() -> None:
    done: list[str] = []
    with pytest.raises(MemoryError, match="no room for the tables"), _meanwhile([fails, lambda: done.append("more")]):
        done.append("the other")
    assert done == ["the other"]


def test_where_the_other_fails_its_error_is_the_one() -> None:
    """And what was not begun by then is left."""
    begun, over = threading.Event(), threading.Event()
    done: list[str] = []

    def first() -> None:
        begun.set()
        assert over.wait(30)

    def other() -> None:
        assert begun.wait(30)
        threading.Timer(0.2, over.set).start()  # by then the other has failed
        raise TrainingError("a worker died")

    with pytest.raises(TrainingError, match="a worker"), _meanwhile([first, lambda: done.append("more"), fails]):
        other()
    assert done == []
