"""A receipt opens the certificate of its request, whoever finishes that: no kill takes somebody's receipt."""

from __future__ import annotations

import shutil
import signal
from functools import partial
from pathlib import Path

import pytest

from receraser.cli.forget import _hand_over
from receraser.custody import Custody
from receraser.proof.certificate import Certificate
from receraser.proof.receipt import Receipt
from receraser.store.history import History, waiting
from receraser.store.pending import Pending
from receraser.verify.checks import examine
from receraser.verify.papers import check_receipt
from receraser.verify.signatures import Vouchers
from tests.durability.scenes import changing, check_clean, copied, finish, keyring_of, rehearsed, store_of
from tests.durability.traps import AFTER, BEFORE, Step, Trap, in_a_child, points

ASKED = ["nobody", "u1", "u3"]


def forget(root: Path) -> None:
    """As the command does it: receipts on disk first."""
    with changing(root) as engine:
        engine.forget(ASKED, receipts=partial(_hand_over, root / "receipts"))


def newest(root: Path) -> Certificate:
    history = History.of(store_of(root))
    return history.issued(store_of(root), history.certified()).certificate


def check_receipts(root: Path) -> None:
    """Everybody has one, and it opens the certificate of what they asked for."""
    data = [path.read_bytes() for path in sorted((root / "receipts").iterdir())]
    receipts = [Receipt.parse(one.removesuffix(b"\n")) for one in data]
    assert [one.names for one in receipts] == [[name] for name in ASKED]
    assert all(one.matches(newest(root)) for one in receipts)
    case, _ = examine(root / "store", vouchers=Vouchers.of(keyring=keyring_of(root), named=True))
    for one in data:
        assert "is one of 3 subjects" in check_receipt(case, one)


def survives(root: Path, steps: list[Step], at: int, when: str) -> str:
    """Kill it there, let the next writer come, and say whether it was asked for by then."""
    place = copied(root, "killed")

    def work() -> None:
        with Trap(place, at, when):
            forget(place)

    try:
        assert in_a_child(work) == -signal.SIGKILL
        asked = bool(waiting(store_of(place))) or newest(place).action == "forget"
        if not asked:
            return "not asked"
        finish(place)
        check_receipts(place)
        check_clean(place)
        return "asked"
    except Exception as error:
        raise AssertionError(f"killed {when} step {at} ({steps[at]})") from error
    finally:
        shutil.rmtree(place)


def written_down(steps: list[Step]) -> int:
    return next(number for number, one in enumerate(steps) if one.call == "replace" and "/pending/" in one.path)


def test_a_kill_takes_nobodys_receipt(root: Path) -> None:
    """All instants from the first receipt to the first work, and some of those that follow."""
    steps = rehearsed(root, forget)
    decisive = written_down(steps)
    first = next(number for number, one in enumerate(steps) if one.path.startswith("receipts"))
    assert first < decisive
    instants = points(steps)
    near = [one for one in instants if first <= one[0] <= decisive + 1]
    late = [one for one in instants if one[0] > decisive + 1]
    found = [survives(root, steps, at, when) for at, when in [*near, *late[:: len(late) // 5]]]
    assert found.count("not asked") == near.index((decisive, AFTER))
    assert found == sorted(found, reverse=True), "from one instant on it is asked for, and stays so"


def test_a_root_that_is_drawn_when_the_work_is_done_would_be_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Custody.write_down

    def write_down(self: Custody, pending: Pending) -> Pending:
        return real(self, Pending(pending.kind, pending.time, request=pending.request, id=pending.id))

    steps = rehearsed(root, forget)
    monkeypatch.setattr(Custody, "write_down", write_down)
    with pytest.raises(AssertionError, match="killed after step"):
        survives(root, steps, written_down(steps), AFTER)


def test_receipts_that_are_handed_over_too_late_would_be_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_first(root: Path) -> None:
        with changing(root) as engine:
            _hand_over(root / "receipts", engine.forget(ASKED).receipts)

    monkeypatch.setattr(f"{__name__}.forget", forget_first)
    steps = rehearsed(root, forget_first)
    with pytest.raises(AssertionError, match="killed before step"):
        survives(root, steps, written_down(steps) + 1, BEFORE)
