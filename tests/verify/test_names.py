"""What the verifier writes down for itself is what the engine has; and it loads little of it."""

from __future__ import annotations

import subprocess
import sys

from receraser.config import ADDITIVE_NAMES
from receraser.partition.registry import PARTITIONS
from receraser.store import directory, layout
from receraser.verify import names


def test_the_models_and_partitions_are_those_of_the_engine() -> None:
    assert frozenset(ADDITIVE_NAMES) == names.ADDITIVE
    assert {name for name, kind in PARTITIONS.items() if kind.remembers_data} == names.LOOKING
    assert {name for name, kind in PARTITIONS.items() if not kind.remembers_data} == names.BLIND


def test_the_layout_is_the_one_that_is_written() -> None:
    assert directory.FORMAT == layout.FORMAT


def test_the_verifier_loads_little() -> None:
    """Formats, proofs and itself: nothing that computes, and nothing that writes a store."""
    script = (
        "import sys, receraser.verify.checks, receraser.verify.papers, receraser.verify.signatures\n"
        "print(*(name.removeprefix('receraser.') for name in sys.modules if name.startswith('receraser.')))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    rest = {name for name in loaded if name.partition(".")[0] not in ("proof", "verify")}
    assert rest == {
        *("data", "data.ids", "data.interactions", "errors", "fingerprint", "keys"),
        *("erasure", "erasure.request", "partition", "partition.partition"),
        *("store", "store.encoding", "store.layout", "store.pending"),
    }
