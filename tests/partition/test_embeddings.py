from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from receraser.errors import DataError
from receraser.partition.embeddings import read_embeddings

GOOD: dict[str, Any] = {
    "users": np.array(["v", "u"]),
    "user_vectors": np.array([[1.0, 2.0], [3.0, 4.0]]),
    "items": np.array([10, 9]),
    "item_vectors": np.array([[5, 6], [7, 8]]),
}


def test_vectors_come_in_the_order_of_their_ids(tmp_path: Path) -> None:
    np.savez(tmp_path / "vectors.npz", **GOOD)
    found = read_embeddings(tmp_path / "vectors.npz")
    assert found.users.ids == ("u", "v")
    assert found.user_vectors.tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert found.items.ids == ("10", "9")
    assert found.item_vectors.tolist() == [[5.0, 6.0], [7.0, 8.0]]
    assert found.user_vectors.dtype == found.item_vectors.dtype == np.float32


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"items": None}, "there is no array 'items'; found: item_vectors, user_vectors, users"),
        ({"users": np.array(5)}, "users has the shape (); expected a list of ids"),
        ({"users": np.array(["u", "u"])}, "an id stands twice among the users"),
        ({"users": np.array(["u", "a,b"])}, "the id 'a,b' holds a comma"),
        (
            {"user_vectors": np.ones((3, 2))},
            "user_vectors is float64 of shape (3, 2); expected numbers, one row per id",
        ),
        ({"user_vectors": np.ones(2)}, "user_vectors is float64 of shape (2,)"),
        ({"user_vectors": np.array([["a"], ["b"]])}, "user_vectors is <U1 of shape (2, 1)"),
        ({"item_vectors": np.ones((2, 3))}, "the vectors of users and items differ in length (2 and 3)"),
        (
            {"item_vectors": np.array([[1.0, np.nan], [2.0, 3.0]])},
            "item_vectors holds a value that is no finite number",
        ),
    ],
)
def test_what_is_wrong_is_named_with_the_file(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    path = tmp_path / "vectors.npz"
    np.savez(path, **{name: array for name, array in (GOOD | change).items() if array is not None})
    with pytest.raises(DataError) as caught:
        read_embeddings(path)
    assert str(caught.value).startswith(f"{path}: {reason}")


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 damaged"])
def test_no_archive(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "vectors.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"this is no \.npz archive of plain arrays"):
        read_embeddings(path)


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "vectors.npz", **GOOD | {"users": np.array([{}, "u"], dtype=object)})
    with pytest.raises(DataError, match=r"no \.npz archive of plain arrays"):
        read_embeddings(tmp_path / "vectors.npz")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the file cannot be read"):
        read_embeddings(tmp_path / "nothing.npz")


def test_a_single_array_is_no_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.ones(3))
    with pytest.raises(DataError, match=r"no \.npz archive of plain arrays"):
        read_embeddings(tmp_path / "vectors.npy")
