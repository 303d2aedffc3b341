from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from receraser.proof.certificate import ACTIONS, PATHS, Certificate
from receraser.proof.rendering import as_html, as_text
from receraser.proof.wording import covers, not_covered
from tests.proof.examples import changed, example, sha

KEY, SHA = "21fe31dfa154a261", sha("file")
HOSTILE = [
    "</style><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; background: url(http://example.org/x) --",
    "<!-- &amp; &#60;b&#62; ]]> -->",
    "\x1b[2J\x1b]0;owned\x07\r\nSigned with key  somebody else\n",
    "abc\u202etxt.exe\u2066\u200b\x00",
    "x" * 5000,
    ": topic: <b>: ",
    "   ",
]


class Page(HTMLParser):
    """The elements, attributes and text of a page; fails on what is not nested as it should be."""

    VOID = ("meta",)

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.comments: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def rendered(certificate: Certificate) -> tuple[str, Page]:
    text = as_text(certificate, signed_by=KEY, sha256=SHA)
    return text, Page(as_html(certificate, signed_by=KEY, sha256=SHA))


def fit() -> Certificate:
    return changed(
        action="fit",
        path="rebuild",
        request={"users": 0, "items": 0, "interactions": 0, "unknown": 0, "subjects_root": None},
        rows_removed=0,
        valid_rows_removed=0,
        removed=None,
        before=None,
        parent=None,
        shards={"count": 1, "retrained": [0], "untouched": 0},
        ledger={"index": 0, "size": 0, "root": sha("")},
        debt={"requests": 0, "rows_removed": 0, "rows_added": 0, "since": ""},
        covers=covers("L3", action="fit"),
        not_covered=not_covered("L3", action="fit"),
    )


def test_both_say_everything_a_privacy_officer_asks_for() -> None:
    one = example()
    for said in (" ".join(part.split()) if isinstance(part, str) else part.text for part in rendered(one)):
        assert "to forget 1 user and 2 items" in said
        assert "125 rows were forgotten, and 5 of 32 shards were computed again without them." in said
        assert "112 for training, 13 for validation" in said
        assert "5 of 32 (numbers 0–2, 7, 13); the others untouched" in said
        assert "1 of the 3 named" in said
        assert "2026-11-15 17:00:00 UTC" in said
        assert "L3" in said
        assert "4 requests, 300 rows removed, 12 added (since 2026-10-01)" in said
        assert one.before is not None
        before_and_after = [one.before["digest"], one.before["data"], one.after["digest"], one.after["data"]]
        for value in [KEY, SHA, one.store, one.parent, one.ledger["root"], one.removed, one.request["subjects_root"]]:
            assert str(value) in said
        assert all(value in said for value in before_and_after)
        assert "receraser verify --store DIR --certificate FILE" in said
        assert "receraser certificate show FILE" in said
        for sentence in one.covers + one.not_covered:
            assert sentence in said


def test_what_is_not_covered_stands_under_its_own_heading() -> None:
    text, page = rendered(example())
    after = text.split("What it does NOT cover")[1].split("\nProof")[0]
    assert after.count("\n- ") == len(example().not_covered)
    assert "What it does not cover" in page.text


def test_a_fit_speaks_of_no_request() -> None:
    text, page = rendered(fit())
    assert text.startswith("CERTIFICATE OF A FIT\n")
    for said in (text, page.text):
        assert "none: this is the first" in said
        assert "receipt" not in said
        assert "Rows removed" not in said
        assert "rebuilt" not in said


@pytest.mark.parametrize(
    ("changes", "summary"),
    [
        ({"rows_removed": 1, "valid_rows_removed": 0}, "1 row was forgotten, and 5 of 32 shards were computed again"),
        (
            {"rows_removed": 0, "valid_rows_removed": 0, "removed": None},
            "Nothing was held of what was asked for: there was nothing to remove.",
        ),
        (
            {"shards": {"count": 1, "retrained": [0], "untouched": 0}},
            "125 rows were forgotten, and the model was computed again without them.",
        ),
        (
            {"action": "add", "rows_added": 3, "shards": {"count": 9, "retrained": [4], "untouched": 8}},
            "3 rows were added, and 1 of 9 shards was computed again with them.",
        ),
        ({"action": "rebuild"}, "The model was trained from nothing on the rows that are stored."),
    ],
)
def test_the_first_sentence_is_enough(changes: dict[str, object], summary: str) -> None:
    text, page = rendered(changed(**changes))
    assert text.splitlines()[1].startswith(summary)
    assert summary in page.text


def test_every_action_and_every_path_has_words() -> None:
    for path in PATHS:
        assert "Computed" in rendered(changed(path=path))[0]
    for action in set(ACTIONS) - {"fit"}:
        assert rendered(changed(action=action))[0].startswith("CERTIFICATE OF ")


def test_text_fits_a_terminal() -> None:
    for line in rendered(example())[0].splitlines():
        assert len(line) <= 80, line


def test_many_shards_are_counted() -> None:
    retrained = list(range(0, 1000, 2))
    one = changed(shards={"count": 1000, "retrained": retrained, "untouched": 500})
    text, page = rendered(one)
    assert "500 of 1000 (numbers 0, 2, 4, 6, 8, 10, 12, 14, and 492 more); the others untouched" in " ".join(
        text.split()
    )
    assert "500 of 1000 (numbers" in page.text


def test_what_a_configuration_does_not_name_is_not_named() -> None:
    text, _ = rendered(changed(config={}, environment={}))
    assert re.search(r"Model +not named, seed 7", text)
    assert re.search(r"Software +receraser 0.1.0, not named", text)


# ---------------------------------------------------------------------- hostile content


def hostile(text: str) -> Certificate:
    return changed(
        origin=text,
        config={"model": text, "method": text, "partition": {text: text}, "aggregation": [text]},
        environment={"device": text, "processor": text},
        code={"version": text},
        covers=[text],
        not_covered=[text, f"{text[:20]}: {text}"],
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_becomes_markup(text: str) -> None:
    plain = Page(as_html(example(), signed_by=KEY, sha256=SHA))
    page = as_html(hostile(text), signed_by=text, sha256=text)
    found = Page(page)
    assert set(found.elements) == set(plain.elements)
    assert set(found.attributes) == set(plain.attributes)
    assert found.comments == []
    if text.isprintable():
        assert found.text.count(" ".join(text.split())) >= 6
    assert all(one.isprintable() or one == "\n" for one in page)


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_moves_the_cursor_or_begins_a_line(text: str) -> None:
    said = as_text(hostile(text), signed_by=text, sha256=text)
    assert all(one.isprintable() or one == "\n" for one in said)
    assert not re.search(r"^Signed with key +somebody", said, flags=re.MULTILINE)


def test_the_page_is_whole_by_itself() -> None:
    page = as_html(example(), signed_by=KEY, sha256=SHA)
    assert page.startswith("<!DOCTYPE html>\n")
    for word in ("http:", "https:", "//", "url(", "@import", "<script", "<link", "<img", "<iframe", "src=", "href="):
        assert word not in page
    found = Page(page)
    assert not any(name.startswith("on") for name, _ in found.attributes)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in found.attributes
    assert "size: A4" in page
    assert "@media print" in page
    assert len(page) < 20_000


def test_a_page_says_that_it_is_not_the_proof() -> None:
    assert "What is signed, and what counts, is the certificate's file." in rendered(example())[1].text
