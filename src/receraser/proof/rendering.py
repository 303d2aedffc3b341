"""A certificate for people: as text for a terminal, and as one page of HTML to print and to file.

Both say the same, from the same lines: what was asked, what was done, what that covers and what it does not, who signed
and how to check. Neither is the proof; that is the signed file, and both say so. Whatever a certificate holds is shown
as the characters it is made of: nothing in it can move a cursor, begin a line, or become markup. The page is whole by
itself: no script, no picture, no font or style from elsewhere.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from itertools import pairwise

from receraser.proof.certificate import Certificate
from receraser.proof.wording import LEVELS

__all__ = ["as_html", "as_text"]

_TITLES = {
    "fit": "Certificate of a fit",
    "forget": "Certificate of forgetting",
    "add": "Certificate of an addition",
    "rebuild": "Certificate of a rebuild",
}
_PATHS = {
    "nothing": "nothing had to be computed",
    "downdate": "the rows were taken out of the model's sums, and the model solved anew",
    "core": "the model was solved anew from all rows left, setting out from users who were not touched",
    "shards": "the shards concerned were trained again from nothing, and what combines them",
    "refit": "everything was trained again from nothing",
    "rebuild": "everything was trained from nothing",
}
_WIDTH = 80
_LABEL = 19
_LONGEST_TOPIC = 60
_MOST_RUNS = 8  # of shards, before the rest is only counted

Lines = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class _Content:
    """What both renderings say."""

    title: str
    summary: str
    about: str
    asked: Lines
    done: Lines
    proof: Lines
    commitments: Lines
    commands: Lines


def as_text(certificate: Certificate, *, signed_by: str, sha256: str) -> str:
    """Return the certificate for a terminal.

    Parameters
    ----------
    certificate
        As parsed from a payload whose signature was checked.
    signed_by
        The id of the key that signed it.
    sha256
        Of the certificate's file.
    """
    content = _content(certificate, signed_by, sha256)
    parts = [
        content.title.upper(),
        *_wrapped(content.summary, ""),
        content.about,
        *_block("What was asked", content.asked),
        *_block("What was done", content.done),
        *_heading(f"Level {certificate.level}"),
        *_wrapped(_sentence(LEVELS[certificate.level]), ""),
        *_bullets("What it covers", certificate.covers),
        *_bullets("What it does NOT cover", certificate.not_covered),
        *_block("Proof", [*content.proof, *content.commitments]),
        *_heading("How to check"),
        *(line for command, what in content.commands for line in (command, *_wrapped(what, "    "))),
    ]
    return "\n".join(parts) + "\n"


def as_html(certificate: Certificate, *, signed_by: str, sha256: str) -> str:
    """Return the certificate as one page of HTML; parameters as for `as_text`."""
    content = _content(certificate, signed_by, sha256)
    style = (resources.files("receraser.proof") / "certificate.css").read_text(encoding="utf-8")
    level = certificate.level
    commands = "".join(f"<dt><code>{_safe(one)}</code></dt><dd>{_safe(what)}</dd>" for one, what in content.commands)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_safe(content.title)} {_safe(sha256[:12])}</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<div><h1>{_safe(content.title)}</h1><p>{_safe(content.summary)}</p><p class="about">{_safe(content.about)}</p></div>
<div class="level"><strong>{_safe(level)}</strong><span>{_safe(_sentence(LEVELS[level]))}</span></div>
</header>
<div class="columns">
<div>
<section><h2>What was asked</h2>{_definitions(content.asked)}</section>
<section><h2>What was done</h2>{_definitions(content.done)}</section>
<section><h2>What it covers</h2>{_items(certificate.covers)}</section>
</div>
<section class="not-covered"><h2>What it does <em>not</em> cover</h2>{_items(certificate.not_covered)}</section>
</div>
<section class="proof"><h2>Proof</h2>{_definitions(content.proof)}{_definitions(content.commitments)}</section>
<section class="check"><h2>How to check</h2><dl>{commands}</dl></section>
<footer>This page is for reading. What is signed, and what counts, is the certificate's file.</footer>
</main>
</body>
</html>
"""


# ---------------------------------------------------------------------- what is said


def _content(certificate: Certificate, signed_by: str, sha256: str) -> _Content:
    one = certificate
    return _Content(
        title=_TITLES[one.action],
        summary=_summary(one),
        about=f"Store {one.store} · {_moment(one.times['published'])}",
        asked=_asked(one),
        done=_done(one),
        proof=[
            ("Signed with key", _clean(signed_by)),
            ("SHA-256 of this certificate", _clean(sha256)),
            ("SHA-256 of the one before", one.parent or "none: this is the first"),
            ("Entry in the ledger", str(one.ledger["index"])),
            ("Root of the ledger before it", one.ledger["root"]),
        ],
        commitments=_commitments(one),
        commands=[
            ("sha256sum FILE", "prints the SHA-256 above: FILE is the certificate's file"),
            ("receraser certificate show FILE", "shows this page's content from the file"),
            (
                "receraser verify --store DIR --certificate FILE",
                "checks the signature, the ledger and every digest, and by replay the weights themselves",
            ),
        ],
    )


def _summary(one: Certificate) -> str:
    """Return one sentence for somebody who reads no further."""
    rows = one.rows_removed + one.valid_rows_removed
    retrained, count = len(one.shards["retrained"]), one.shards["count"]
    trained = "the model was" if count == 1 else f"{retrained} of {count} shards {_were(retrained)}"
    if one.action == "forget" and rows == 0:
        return "Nothing was held of what was asked for: there was nothing to remove."
    if one.action == "forget":
        return f"{_number(rows, 'row')} {_were(rows)} forgotten, and {trained} computed again without them."
    if one.action == "add":
        return (
            f"{_number(one.rows_added, 'row')} {_were(one.rows_added)} added, and {trained} computed again with them."
        )
    return "The model was trained from nothing on the rows that are stored."


def _asked(one: Certificate) -> Lines:
    words = {"fit": "to fit a model", "add": "to add rows", "rebuild": "to fit everything anew", "forget": "to forget"}
    request = one.request
    counts = {"user": request["users"], "item": request["items"], "interaction": request["interactions"]}
    named = _listing(_number(count, noun) for noun, count in counts.items() if count)
    lines = [("Request", f"{words[one.action]} {named}".strip()), ("Made", _moment(one.times["requested"]))]
    if request["unknown"]:
        lines.append(("Nothing held of", f"{request['unknown']} of the {one.subjects} named"))
    if one.subjects:
        lines.append(("By whom", "not said here; a receipt shows whose it is, where one was handed out"))
    return lines


def _done(one: Certificate) -> Lines:
    shards, debt = one.shards, one.debt
    lines = []
    if one.action == "forget":
        lines.append(("Rows removed", f"{one.rows_removed} for training, {one.valid_rows_removed} for validation"))
    if one.rows_added:
        lines.append(("Rows added", str(one.rows_added)))
    lines += [
        ("Computed", _PATHS[one.path]),
        ("Shards retrained", _shards(shards["retrained"], shards["count"])),
        ("Begun", _moment(one.times["started"])),
        ("Published", _moment(one.times["published"])),
        ("Model", _clean(f"{_named(one.config, 'model', 'method', 'partition', 'aggregation')}, seed {one.seed}")),
        ("Configuration", _clean(one.origin)),
        ("Software", _clean(f"receraser {one.code['version']}, {_named(one.environment, 'device', 'processor')}")),
    ]
    if debt["requests"]:
        told = (
            f"{_number(debt['requests'], 'request')}, {debt['rows_removed']} rows removed, {debt['rows_added']} added"
        )
        since = f" (since {debt['since'][:10]})" if debt["since"] else ""
        lines.append(("Since last rebuilt", told + since))
    return lines


def _commitments(one: Certificate) -> Lines:
    lines = [("State after", one.after["digest"]), ("Data after", one.after["data"])]
    if one.before is not None:
        lines = [("State before", one.before["digest"]), ("Data before", one.before["data"]), *lines]
    if one.removed is not None:
        lines.append(("Rows removed", one.removed))
    if one.request["subjects_root"] is not None:
        lines.append(("Subjects", one.request["subjects_root"]))
    return [(f"Commitment: {label[0].lower()}{label[1:]}", value) for label, value in lines]


def _named(table: Mapping[str, object], *names: str) -> str:
    """Return some of a table's entries: the first by its value alone, the others with their names."""
    found = [(name, table[name]) for name in names if name in table]
    return ", ".join(str(value) if name == names[0] else f"{name} {value}" for name, value in found) or "not named"


# ---------------------------------------------------------------------- words


def _number(how_many: int, noun: str) -> str:
    return f"{how_many} {noun}{'' if how_many == 1 else 's'}"


def _were(how_many: int) -> str:
    return "was" if how_many == 1 else "were"


def _listing(parts: Iterable[str]) -> str:
    *others, last = [*parts] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _moment(time: str) -> str:
    return f"{time[:10]} {time[11:19]} UTC"


def _shards(retrained: list[int], count: int) -> str:
    """Say how many shards were fitted again, and which."""
    if not retrained:
        return f"none of {count}"
    if len(retrained) == count:
        return f"all {count}"
    which = "number" if len(retrained) == 1 else "numbers"
    return f"{len(retrained)} of {count} ({which} {_runs(retrained)}); the others untouched"


def _runs(numbers: Sequence[int]) -> str:
    """Return ascending numbers in short: 0–3, 7.

    Examples
    --------
    >>> _runs([0, 1, 2, 3, 7]), _runs([])
    ('0–3, 7', 'none')
    """
    starts = [0, *(place for place, (a, b) in enumerate(pairwise(numbers), 1) if b != a + 1), len(numbers)]
    runs = [numbers[a:b] for a, b in pairwise(starts) if a < b]
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs[:_MOST_RUNS]]
    if left := sum(len(run) for run in runs[_MOST_RUNS:]):
        shown.append(f"and {left} more")
    return ", ".join(shown) or "none"


def _clean(text: str) -> str:
    r"""Return text in which every character can be seen: what moves, hides or reorders others is spelt out.

    Examples
    --------
    >>> _clean("a\x1b[2Jb\n\u202ec")
    'a\\x1b[2Jb\\n\\u202ec'
    """
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


# ---------------------------------------------------------------------- as text


def _heading(title: str) -> list[str]:
    return ["", title, "-" * len(title)]


def _block(title: str, lines: Lines) -> list[str]:
    said = _heading(title)
    for label, value in lines:
        indent = " " * (_LABEL + 2)
        own_line = len(label) > _LABEL or (" " not in value and len(value) > _WIDTH - len(indent))
        said += [label, f"    {value}"] if own_line else _wrapped(value, f"{label:<{_LABEL}}  ", indent)
    return said


def _wrapped(text: str, first: str, then: str | None = None) -> list[str]:
    lines = textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=first if then is None else then,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [first.rstrip()]


def _bullets(title: str, sentences: Iterable[str]) -> list[str]:
    said = _heading(title)
    for sentence in sentences:
        said += _wrapped(_clean(sentence), "- ", "  ")
    return said


# ---------------------------------------------------------------------- as HTML


def _safe(text: str) -> str:
    return escape(_clean(text), quote=True)


def _definitions(lines: Lines) -> str:
    return "<dl>" + "".join(f"<dt>{_safe(label)}</dt><dd>{_safe(value)}</dd>" for label, value in lines) + "</dl>"


def _items(sentences: Iterable[str]) -> str:
    """Return a list; what a sentence is about, if it begins with that, stands out."""
    said = []
    for one in sentences:
        topic, colon, rest = one.partition(": ")
        stands_out = bool(colon) and len(topic) <= _LONGEST_TOPIC
        said.append(f"<b>{_safe(topic)}:</b> {_safe(rest)}" if stands_out else _safe(one))
    return "<ul>" + "".join(f"<li>{one}</li>" for one in said) + "</ul>"
