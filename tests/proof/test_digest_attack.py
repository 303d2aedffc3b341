"""The digest attack, mounted for real: what is published about a forget does not tell which row it was.

Everything is deterministic, so whoever knows the survivors can put a guessed row back, fit, and compare what comes out
with every hash that was ever published: one that fits betrays the row. The attacker here has what anybody may be given
(an export, every certificate, ledger and checkpoint as they were after each change, public keys, configuration, code),
made requests of their own and has receipts for them, and, which is more than anybody should have, holds the store as it
is now. They have no secret key and no old store. They learn nothing; and the same attack finds the row at once where
digests are published plainly, an old nonce is kept, or a nonce or a key can be guessed.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from receraser import fingerprint
from receraser.config import EngineConfig
from receraser.custody import Act, Custody, data_root
from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.keys import PUBLIC_KEY
from receraser.proof import commitment, ledger, merkle
from receraser.proof.certificate import PAYLOAD_TYPE, Certificate
from receraser.proof.keyring import Keyring
from receraser.proof.receipt import Receipt, receipts_of
from receraser.proof.signing import unverified
from receraser.state import State
from receraser.store.directory import DirectoryStore
from receraser.store.encoding import encode_rows, encode_tensors
from receraser.store.export import Export, read_export
from receraser.store.record import Record
from tests.forgetting.engines import Combination, Here, Pair, every_byte, pseudonym, rows_of, state_of
from tests.nightly import NIGHT

Patch = pytest.MonkeyPatch
Candidate = Pair
"""A row that may have been there: the user's outside id, and the item."""

SHARDED = Combination("hash", "static", "wmf")
SUMS = Combination("whole", "alone", "gram", hyperparameters={"rank": 2})

EVERYBODY = [(f"u{user}", f"i{item}") for user in range(8) for item in range(8) if (user * item + user) % 3 != 1]
HELD_OUT = [(f"u{user}", f"i{(user + 5) % 8}") for user in range(4)]
ANN = [("ann", "i0"), ("ann", "i1")]
MALLORY = [("mallory", "i1"), ("mallory", "i2"), ("mallory", "i4")]
LATER = [("mallory", "i6")]


@dataclass(frozen=True)
class Case:
    """What the attacker wants to know: which of the candidates was there, and was forgotten."""

    name: str
    truth: Candidate
    candidates: Sequence[Candidate] = field(hash=False)
    whole_user: bool = False

    def forget(self, engine: Engine) -> Sequence[Receipt]:
        if self.whole_user:
            return engine.forget(users=[self.truth[0]]).receipts
        return engine.forget(interactions=[self.truth]).receipts


AN_ITEM = Case("an item of somebody known", ("ann", "i3"), [("ann", f"i{n}") for n in range(2, 8)])
A_PERSON = Case(
    "somebody of whom there was one row",
    ("carol", "i5"),
    [(user, item) for user in ("bob", "carol", "dave") for item in ("i4", "i5")],
    whole_user=True,
)
CASES = [AN_ITEM, A_PERSON]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda one: one.name)


# ---------------------------------------------------------------------- what happens, and what of it is published


@dataclass
class Known:
    """What the attacker has."""

    export: Path
    store: Path
    texts: list[str] = field(default_factory=list)
    certificates: dict[str, Certificate] = field(default_factory=dict)
    receipts: list[Receipt] = field(default_factory=list)

    def copy(self, store: Path) -> None:
        """Copy what is public of a store: certificates, ledger, checkpoint, public keys."""
        for path in sorted((store / "certificates").iterdir()):
            payload = unverified(json.loads(path.read_bytes()), PAYLOAD_TYPE)
            self.certificates[path.stem] = Certificate.parse(payload)
            self.texts += [path.stem, *readable(path.read_bytes())]
        self.texts += readable((store / "ledger").read_bytes())
        record = DirectoryStore(store).manifest()["record"]
        assert isinstance(record, Mapping)
        self.texts += readable(json.dumps([record["checkpoint"], record["signers"]]).encode())

    def values(self) -> set[str]:
        """Every hash-like value: all 32 and 64 hex digits anywhere, in the store as it is now too."""
        now = [*readable((self.store / "manifest.json").read_bytes()), *readable(every_byte(self.store))]
        own = [text for one in self.receipts for text in readable(one.payload())]
        return {found for text in [*self.texts, *now, *own] for found in hashes(text)}


def readable(data: bytes) -> list[str]:
    """Some bytes as text, and what is inside whatever is base64 in it."""
    return [one.decode(errors="replace") for one in (data, *unpacked(data))]


def unpacked(data: bytes) -> list[bytes]:
    """What is inside whatever is base64."""
    found = re.findall(rb"[A-Za-z0-9+/]{40,}={0,2}", data)
    return [base64.b64decode(one) for one in found if len(one) % 4 == 0]


def hashes(text: str) -> Iterator[str]:
    yield from re.findall("(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{32})(?![0-9a-f])", text)


def happened(folder: Path, case: Case, combination: Combination = SHARDED) -> Known:
    """A fit; a request of the attacker's, the one that matters, and an add of the attacker's. Copied after each."""
    store, keyring = folder / "store", Keyring(folder / "keys")
    known = Known(folder / "export", store)
    rows = [*EVERYBODY, *MALLORY, *ANN, case.truth]
    combination.engine().fit(rows_of(rows), valid=rows_of(HELD_OUT)).save(store, keyring=keyring)
    known.copy(store)
    steps: list[Callable[[Engine], object]] = [
        lambda engine: known.receipts.extend(engine.forget(interactions=MALLORY[:1]).receipts),
        case.forget,
        lambda engine: engine.add(rows_of(LATER)),
    ]
    for step in steps:
        with Engine.changing(store, executor=Here(), keyring=keyring) as engine:
            step(engine)
        known.copy(store)
    Engine.load(store).export(known.export)
    return known


# ---------------------------------------------------------------------- the attack


def attack(known: Known, case: Case) -> Mapping[Candidate, set[str]]:
    """Put every candidate back and compare all that can be computed with all that was published.

    Returns what speaks for each candidate: published values that come out of it, and neither of the survivors alone nor
    of every candidate.
    """
    published = known.values()
    keys = guesses(published)
    anyway = derived(texts_of(known, None), keys)
    fits = {one: published & derived(texts_of(known, one), keys) - anyway for one in case.candidates}
    common = set.intersection(*fits.values())
    return {one: own - common for one, own in fits.items()}


def guesses(published: Iterable[str]) -> list[bytes]:
    """What could have been taken as a nonce or a key: everything of that length, what lies about, and nothing."""
    found = {bytes.fromhex(one) for one in published if len(one) == 64}
    return sorted(found | {bytes(32), b"\xff" * 32, PUBLIC_KEY, hashlib.sha256(b"").digest()})


def derived(texts: Iterable[str], keys: Sequence[bytes]) -> set[str]:
    """What texts give: themselves, hashes, commitments with any of these nonces, and hashes with any of these keys."""
    texts = set(texts)
    found = {one for text in texts for one in hashes(text)}
    heads = [_prefixed(b"receraser commitment", kind, key) for kind in _KINDS for key in keys]
    for value in map(str.encode, texts):
        plain, end = hashlib.sha256(value).digest(), _prefixed(value)
        committed = [plain, *(hashlib.sha256(head + end).digest() for head in heads)]
        found |= {one.hex() for one in committed}
        if value.startswith(b"["):  # a subject: the root over one leaf is the leaf
            found |= {merkle.leaf_hash(one).hex() for one in committed}
            found |= {ledger.subject_hash(key, *json.loads(value)) for key in keys}
    return found


_KINDS = (b"digest", b"data", b"removed", b"subject")


def _prefixed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def texts_of(known: Known, candidate: Candidate | None) -> Iterator[str]:
    """Digests of the states that there would have been, and of the row itself; None: without any such row."""
    export = read_export(known.export)
    own, later = (pseudonymous(rows) for rows in (MALLORY[:1], LATER))
    row = pseudonymous([] if candidate is None else [candidate])
    before = export.train.without(later)
    for train in (Interactions.union([before, row, own]), Interactions.union([before, row])):
        yield from texts_of_state(refitted(known, export, train))
    if candidate is None:
        yield from texts_of_state(refitted(known, export, export.train))
        return
    yield from (fingerprint.of_rows(row), data_root(row, Interactions.empty()), data_root(row, None))
    user, item = candidate
    yield pseudonym(user)
    for name in (user, pseudonym(user)):
        for subject in (["user", name], ["item", item], ["interaction", name, item]):
            yield fingerprint.canonical_json(subject).decode()


def pseudonymous(rows: Iterable[Candidate]) -> Interactions:
    return rows_of((pseudonym(user), item) for user, item in rows)


def data_of(state: State) -> str:
    """What a certificate commits to as the rows of a state."""
    return fingerprint.combine(state.rows_digests)


def refitted(known: Known, export: Export, train: Interactions) -> Engine:
    """A fit by the configuration that certificates tell."""
    config = next(iter(known.certificates.values())).config
    engine = Engine.from_config(EngineConfig(**config), executor=Here())  # type: ignore[arg-type]
    return engine._fit(train, export.valid, None, None, None)


def texts_of_state(engine: Engine) -> Iterator[str]:
    """The digest of a state, of everything it is made of, and the names that its files have in a store."""
    state = state_of(engine)
    yield from (state.digest, data_of(state), data_root(state.train, state.valid), *state.rows_digests.values())
    yield from (fingerprint.of_rows(state.train), fingerprint.of_tensors(state.aggregate))
    yield from (fingerprint.of_bytes(encode_tensors({name: own})) for name, own in state.aggregate.items())
    for one in state.shards:
        yield from (one.report.digest, fingerprint.of_rows(one.shard.train))
        yield from (fingerprint.of_tensors(one.model.state()), fingerprint.of_bytes(encode_rows(one.shard.train)))
        yield fingerprint.of_bytes(encode_tensors(one.model.state()))
        if one.shard.valid is not None:
            yield from (fingerprint.of_rows(one.shard.valid), fingerprint.of_bytes(encode_rows(one.shard.valid)))


# ---------------------------------------------------------------------- it learns nothing


@pytest.fixture(scope="module")
def as_it_is(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case, Combination], Known]:
    """What happens where no mistake is made; looked at by several."""

    @functools.cache
    def known(case: Case, combination: Combination) -> Known:
        return happened(tmp_path_factory.mktemp("case"), case, combination)

    return known


@pytest.mark.parametrize("combination", [SHARDED, SUMS] if NIGHT else [SHARDED], ids=str)
@each_case
def test_nothing_that_is_published_speaks_for_any_candidate(
    case: Case, combination: Combination, as_it_is: Callable[[Case, Combination], Known]
) -> None:
    known = as_it_is(case, combination)
    assert attack(known, case) == {one: set() for one in case.candidates}
    assert len(known.certificates) == 4
    assert len(known.values()) > 40, "there was a lot to compare with"


def test_what_the_attack_derives_is_what_the_store_had(
    tmp_path: Path, as_it_is: Callable[[Case, Combination], Known]
) -> None:
    """It does not fail for want of trying: the old digest, data root and file names are among what it derives."""
    rows = [*EVERYBODY, *MALLORY[1:], *ANN, AN_ITEM.truth]
    old = SHARDED.engine().fit(rows_of(rows), valid=rows_of(HELD_OUT))
    known = as_it_is(AN_ITEM, SHARDED)
    right, wrong = (set(texts_of(known, one)) for one in (AN_ITEM.truth, ("ann", "i4")))
    state = state_of(old)
    assert {old.digest, data_of(state)} <= right - wrong
    old.save(tmp_path / "old")
    names = {path.name for path in (tmp_path / "old" / "files").iterdir()}
    assert names <= right
    assert names - wrong, "the files of the shard that held the row"
    nonce = commitment.new_nonce()
    for kind in ("digest", "data", "removed", "subject"):
        assert commitment.commit(kind, nonce, b"value") in derived(["value"], [nonce])
    root, (receipt,) = receipts_of([("user", "ann")])
    assert root in derived(['["user","ann"]'], [bytes.fromhex(receipt.nonce)])


# ---------------------------------------------------------------------- it would have succeeded


def digests_are_published_plainly(patch: Patch) -> None:
    patch.setattr(commitment, "commit", lambda kind, nonce, value: hashlib.sha256(value).hexdigest())


def the_nonces_of_a_superseded_state_are_kept(patch: Patch) -> None:
    original = Custody._certified

    def certified(self: Custody, state: State, act: Act, record: Record) -> tuple[Record, Certificate]:
        made, certificate = original(self, state, act, record)
        old = {f"{name} of entry {record.size}": nonce for name, nonce in record.openings.items()}
        return replace(made, openings={**made.openings, **old}), certificate

    patch.setattr(Custody, "_certified", certified)


def nonces_can_be_guessed(patch: Patch) -> None:
    patch.setattr(commitment, "new_nonce", lambda: bytes(32))


def the_key_of_the_ledger_can_be_guessed(patch: Patch) -> None:
    patch.setattr(Custody, "_ledger_key", lambda self: PUBLIC_KEY)


def the_certificate_names_the_files_that_went(patch: Patch) -> None:
    """As an account of what was destroyed might."""
    original = Custody._certified

    def certified(self: Custody, state: State, act: Act, record: Record) -> tuple[Record, Certificate]:
        made, certificate = original(self, state, act, record)
        gone = [] if act.before is None else [one.files for one in act.before.shards if one.shard.id in act.retrained]
        said = [f"destroyed: {name}" for files in gone for name in (files or {}).values()]
        return made, replace(certificate, covers=[*certificate.covers, *said])

    patch.setattr(Custody, "_certified", certified)


MISTAKES = [
    (digests_are_published_plainly, AN_ITEM),
    (digests_are_published_plainly, A_PERSON),
    (the_nonces_of_a_superseded_state_are_kept, AN_ITEM),
    (the_nonces_of_a_superseded_state_are_kept, A_PERSON),
    (nonces_can_be_guessed, A_PERSON),
    (the_key_of_the_ledger_can_be_guessed, AN_ITEM),
    (the_certificate_names_the_files_that_went, A_PERSON),
]


@pytest.mark.parametrize(("mistake", "case"), MISTAKES, ids=[f"{one.__name__}-{case.name}" for one, case in MISTAKES])
def test_the_same_attack_succeeds_if_a_mistake_is_made(
    mistake: Callable[[Patch], None], case: Case, tmp_path: Path, monkeypatch: Patch
) -> None:
    mistake(monkeypatch)
    found = attack(happened(tmp_path, case), case)
    most = max(len(own) for own in found.values())
    assert most > 0
    assert [one for one, own in found.items() if len(own) == most] == [case.truth]


@each_case
def test_a_digest_that_somebody_noted_down_is_such_a_mistake(
    case: Case, as_it_is: Callable[[Case, Combination], Known]
) -> None:
    """Commands print the digest of the state there is; whoever keeps it longer than that keeps a test for guesses."""
    rows = [*EVERYBODY, *MALLORY, *ANN, case.truth]
    noted = SHARDED.engine().fit(rows_of(rows), valid=rows_of(HELD_OUT)).digest
    known = as_it_is(case, SHARDED)
    found = attack(replace(known, texts=[*known.texts, noted]), case)
    assert found == {one: {noted} if one == case.truth else set() for one in case.candidates}


def test_so_are_recommendations_from_before(as_it_is: Callable[[Case, Combination], Known]) -> None:
    """Versions compared: whoever has seen scores of the old model, be it their own, can test guesses about others."""
    rows = [*EVERYBODY, *MALLORY[1:], *ANN, AN_ITEM.truth]
    seen = SUMS.engine().fit(rows_of(rows), valid=rows_of(HELD_OUT)).recommend(["mallory"])
    known = as_it_is(AN_ITEM, SUMS)
    export = read_export(known.export)
    before = export.train.without(pseudonymous(LATER))
    guessed = {one: Interactions.union([before, pseudonymous([one])]) for one in AN_ITEM.candidates}
    fits = [one for one, train in guessed.items() if refitted(known, export, train).recommend(["mallory"]) == seen]
    assert fits == [AN_ITEM.truth]


# ---------------------------------------------------------------------- what is told all the same


def test_the_retrained_shard_tells_where_the_row_was_and_the_certificate_says_so(
    as_it_is: Callable[[Case, Combination], Known],
) -> None:
    """log2 K bits: candidates of other shards are out."""
    known = as_it_is(A_PERSON, SHARDED)
    (certificate,) = (one for one in known.certificates.values() if one.ledger["index"] == 2)
    (shard,) = certificate.shards["retrained"]
    export = read_export(known.export)

    def shard_of(candidate: Candidate) -> int:
        row = (pseudonym(candidate[0]), candidate[1])
        state = state_of(refitted(known, export, Interactions.union([export.train, rows_of([row])])))
        return int(state.partition.train[list(state.train.pairs()).index(row)])

    left = [one for one in A_PERSON.candidates if shard_of(one) == shard]
    assert A_PERSON.truth in left
    assert 0 < len(left) < len(A_PERSON.candidates)
    assert any(
        one.startswith("Where the data was: that 1 of 3 shards was retrained") for one in certificate.not_covered
    )


def test_who_may_ask_and_reads_the_ledger_can_tell_that_somebody_was_asked_for_before(tmp_path: Path) -> None:
    """The same subject has the same keyed hash in every entry: the ledger is not for everybody who may ask."""
    happened(tmp_path, A_PERSON)
    store = tmp_path / "store"
    with Engine.changing(store, executor=Here(), keyring=Keyring(tmp_path / "keys")) as engine:
        engine.forget(users=["bob"])
        engine.forget(users=["carol"])
    entries = ledger.read_entries((store / "ledger").read_bytes())
    about_carol, about_bob, again = (set(entries[index].subjects) for index in (2, 4, 5))
    assert again == about_carol
    assert not about_bob & about_carol


def test_a_partition_that_looks_at_the_data_gives_the_row_away_until_it_is_rebuilt(tmp_path: Path) -> None:
    """What L1 leaves open: the anchors were computed with the row, and an export takes them along."""
    by_users = Combination("ubp", "mean", "wmf")

    def remembered(export: Export) -> list[Candidate]:
        """The candidates whose partition, computed anew, has the anchors that were exported."""
        marks = export.partition.landmarks
        assert marks is not None
        found = []
        for candidate in AN_ITEM.candidates:
            row = rows_of([(pseudonym(candidate[0]), candidate[1])])
            engine = Engine.from_config(export.config, executor=Here())
            engine._fit(Interactions.union([export.train, row]), export.valid, None, None, None)
            own = state_of(engine).partition.landmarks
            assert own is not None
            if np.array_equal(own.anchors, marks.anchors):
                found.append(candidate)
        return found

    rows = [*EVERYBODY, *MALLORY, *ANN, AN_ITEM.truth]
    engine = by_users.engine().fit(rows_of(rows), valid=rows_of(HELD_OUT))
    AN_ITEM.forget(engine)
    engine.export(tmp_path / "L1")
    assert engine.level == "L1"
    assert remembered(read_export(tmp_path / "L1")) == [AN_ITEM.truth]
    engine.rebuild().export(tmp_path / "L3")
    assert engine.level == "L3"
    assert remembered(read_export(tmp_path / "L3")) == []


# ---------------------------------------------------------------------- what is left in the store


def everything_in(folder: Path) -> bytes:
    """All that can be read in a folder, envelopes opened."""
    whole = every_byte(folder)
    return b"\n".join([whole, *unpacked(whole)])


def superseded(store: Path) -> dict[str, str]:
    """What is about to be superseded: nonces, digests and data root of the state, and the names of its files."""
    manifest = DirectoryStore(store).manifest()
    record = Record.from_dict(manifest["record"])
    state = state_of(Engine.load(store))
    found = {f"nonce {name}": nonce for name, nonce in record.openings.items()}
    found |= {"digest": state.digest, "data": data_of(state)}
    found |= {f"shard {one.shard.id}": one.report.digest for one in state.shards}
    found |= {f"rows {one.shard.id}": fingerprint.of_rows(one.shard.train) for one in state.shards}
    return found | {f"file {name}": name for name in _files(manifest)}


def _files(manifest: Mapping[str, object]) -> list[str]:
    files = manifest["files"]
    assert isinstance(files, Mapping)
    return list(files)


def held(folders: Sequence[Path], values: Iterable[str]) -> list[str]:
    """Those of some values that can be read somewhere: as text or as bytes."""
    whole = b"".join(everything_in(folder) for folder in folders if folder.exists())
    return [one for one in values if one.encode() in whole or bytes.fromhex(one) in whole]


def test_no_old_nonce_and_no_old_digest_is_left_anywhere(tmp_path: Path) -> None:
    """Neither in the store nor beside the keys nor in an export; with an old state kept, as long as it is kept."""
    store, keyring = tmp_path / "store", Keyring(tmp_path / "keys")
    rows = [*EVERYBODY, *MALLORY, AN_ITEM.truth]
    SHARDED.engine().fit(rows_of(rows), valid=rows_of(HELD_OUT)).save(store, keyring=keyring)
    folders = [store, tmp_path / "keys", tmp_path / "export"]
    kept: list[str] = []
    for step, keep_old in enumerate([False, False, True, False]):
        old = superseded(store)
        assert {"nonce digest", "nonce data", "digest"} <= old.keys()
        there = [name for name in old if name.split()[0] in ("nonce", "digest", "shard", "file")]
        assert set(held([store], [old[name] for name in there])) == {old[name] for name in there}, "it finds what is"
        with Engine.changing(store, executor=Here(), keyring=keyring, keep_old=keep_old) as engine:
            engine.forget(interactions=[rows[step]] if step else [AN_ITEM.truth])
        present = set(superseded(store).values())
        gone = [value for value in old.values() if value not in present]  # shards that were not touched stay
        assert old["digest"] in gone
        assert len(gone) >= 6
        left = held(folders, [*gone, *kept])
        if keep_old:
            assert {old["digest"], old["nonce digest"], old["nonce data"]} <= set(left), "with the state that is kept"
        else:
            assert left == []
        kept += gone
    Engine.load(store).export(tmp_path / "export")
    assert held(folders, kept) == []


def test_nothing_hash_like_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        happened(tmp_path, AN_ITEM)
    assert list(hashes(caplog.text)) == []
