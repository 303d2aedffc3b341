from __future__ import annotations

import pytest

from receraser.errors import UsageError
from receraser.proof.wording import LEVELS, covers, not_covered

ALWAYS = [
    *("file-system snapshots", "ssd remnants", "backups", "copies and exports already handed out"),
    *("models trained elsewhere", "recommendations already shown", "logs and databases of other systems", "lawfully"),
]


def said(sentences: list[str]) -> str:
    return " ".join(sentences).lower()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("action", ["fit", "forget", "add", "rebuild"])
def test_what_no_level_covers_is_said_at_every_level(level: str, action: str) -> None:
    found = said(not_covered(level, action=action))
    assert all(one in found for one in ALWAYS)
    assert "equal to a fresh fit" in found


@pytest.mark.parametrize("level", LEVELS)
def test_sentences_are_plain_and_each_is_said_once(level: str) -> None:
    everything = covers(level) + not_covered(
        level, shards=10, retrained=2, kept_old=True, wishes=True, tuned=True, exports=2
    )
    assert len(everything) == len(set(everything))
    for one in everything:
        assert one[0].isupper()
        assert one[-1] in ".)"
        assert len(one) < 250


def test_each_level_promises_what_it_is() -> None:
    assert "bit for bit" not in said(covers("L0"))
    assert "same assignment of rows to shards" in said(covers("L1"))
    assert "the whole model" in said(covers("L2"))
    assert "the whole model" in said(covers("L3"))
    assert [level for level in LEVELS if "destroyed" in said(covers(level))] == ["L3"]
    assert "asked for are gone" in said(covers("L3", action="forget"))
    assert "asked for" not in said(covers("L3", action="add"))
    assert "destroyed" not in said(covers("L3", action="fit")), "there was nothing before"


def test_each_level_names_what_it_lacks() -> None:
    assert [level for level in LEVELS if "weights: they may still reflect" in said(not_covered(level))] == ["L0"]
    assert [level for level in LEVELS if "assignment of rows to shards" in said(not_covered(level))] == ["L0", "L1"]
    assert [level for level in LEVELS if "kept on purpose" in said(not_covered(level))] == ["L2"]
    assert "kept on purpose" in said(not_covered("L1", kept_old=True))


def test_what_is_so_for_this_one_only() -> None:
    assert "wish" not in said(not_covered("L3"))
    assert "a wish to hide: it is stored" in said(not_covered("L3", wishes=True))
    assert "search" not in said(not_covered("L3"))
    assert "search" in said(not_covered("L3", tuned=True))
    assert "(3 on record)" in said(not_covered("L3", exports=3))
    assert "keyed hash" in said(not_covered("L3"))
    assert "keyed hash" not in said(not_covered("L3", action="add"))


@pytest.mark.parametrize(
    ("shards", "retrained", "told"),
    [
        (10, 1, "that 1 of 10 shards was retrained tells in which of them it lay (3.3 bits)"),
        (32, 1, "(5.0 bits)"),
        (10, 2, "that 2 of 10 shards were retrained tells in which of them it lay (5.5 bits)"),
        (10, 10, None),
        (10, 0, None),
        (1, 1, None),
    ],
)
def test_which_shards_were_retrained_tells_something(shards: int, retrained: int, told: str | None) -> None:
    found = said(not_covered("L3", shards=shards, retrained=retrained))
    assert told in found if told else "bits" not in found


def test_an_unknown_level_is_no_level() -> None:
    for function in (covers, not_covered):
        with pytest.raises(UsageError, match=r"there is no level 'L4': did you mean 'L3'|known: L0, L1, L2, L3"):
            function("L4")
