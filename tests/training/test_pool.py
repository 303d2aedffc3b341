from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from threading import Barrier, Thread, current_thread

import pytest
import torch

from receraser.training.pool import pool, spread

N = 3


def members(n: int) -> set[Thread]:
    """The threads of a pool: all of them are needed at once."""
    everybody = Barrier(n)

    def member(_: int) -> Thread:
        everybody.wait(timeout=60)
        return current_thread()

    return set(pool(n).map(member, range(n)))


@pytest.fixture
def torch_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_same_threads_every_time() -> None:
    assert pool(N) is pool(N)
    assert members(N) == members(N)
    assert len(members(N)) == N, "so many as were asked for, at once"
    assert not members(N) & members(2)


def test_torch_computes_with_one_thread_in_each_of_them() -> None:
    everybody = Barrier(N)

    def number(_: int) -> int:
        everybody.wait(timeout=60)
        return torch.get_num_threads()

    assert list(pool(N).map(number, range(N))) == [1] * N


def test_torch_computes_elsewhere_as_it_did_before(torch_threads: None) -> None:
    """In the thread that asked, and in those that are started later: torch's number is for all that are to come."""
    torch.set_num_threads(2)
    made = pool.__wrapped__(2)  # as if for the first time
    later: list[int] = []
    thread = Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    made.shutdown()
    assert [torch.get_num_threads(), *later] == [2, 2]


@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("many", [0, 1, 2, 5, 8])
def test_pieces_are_spread_in_order_over_so_many_threads(many: int, n: int) -> None:
    """Each thread has a run of neighbours, and the one that asked is one of them."""
    found = spread(lambda piece: (piece, current_thread()), range(many), n)
    assert [piece for piece, _ in found] == list(range(many))
    threads = list(dict.fromkeys(thread for _, thread in found))
    assert len(threads) <= min(n, many)
    assert [thread for _, thread in found] == sorted((thread for _, thread in found), key=threads.index), "in runs"
    assert not many or found[-1][1] is current_thread()


def test_what_a_piece_fails_by_is_raised() -> None:
    """Whoever it happened to; and nobody is still at work then."""
    for pieces in ([0, 1, 2, 3], [3, 2, 1, 0]):
        done: list[int] = []
        with pytest.raises(ZeroDivisionError):
            spread(lambda piece: done.append(1 // piece), pieces, 2)  # noqa: B023
        assert len(done) in (2, 3)


def test_pieces_are_computed_at_the_same_time() -> None:
    both = Barrier(2)
    spread(lambda _: both.wait(timeout=60), [0, 1], 2)


def test_after_a_fork_there_is_another_pool() -> None:
    """A child has none of its parent's threads; what it asked them for would never be done."""
    before = members(N)
    _MADE.append(pool(N))
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as children:
        assert children.submit(_known).result(timeout=60) == (0, False)
        assert children.submit(_work).result(timeout=60) == [0, 1, 4]
    assert members(N) == before, "the parent's own goes on"


_MADE: list[ThreadPoolExecutor] = []  # by the parent


def _known() -> tuple[int, bool]:
    """How many pools the child knows to begin with, and whether what it gets is its parent's."""
    return pool.cache_info().currsize, pool(N) in _MADE


def _work() -> list[int]:
    return list(pool(N).map(lambda n: n * n, range(3)))
