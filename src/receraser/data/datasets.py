"""The public data sets we know: where they lie, how to recognise them, and what their owners ask for.

A table and nothing else; `fetch` brings what it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

__all__ = ["DATASETS", "RECORD", "Dataset", "RemoteFile"]

RECORD = "SOURCE.json"  # lies beside the files unpacked: which published files they came from, and their checksums


@dataclass(frozen=True)
class RemoteFile:
    """One file to download, and how to know it.

    Attributes
    ----------
    url
        http or https.
    saved_as
        Its name in the folder, where it may also be put by hand.
    members
        What it yields: name in the zip archive to name in the data set's folder; for a plain file, "" to its name.
    size, md5, sha256
        As published, where they are known; every one that is given is checked.
    lines_sha256
        SHA-256 over the lines `user item item ...` with the items of each line sorted by number, single spaces and
        a line feed at the end: the same for copies that list a user's items in another order.
    """

    url: str
    saved_as: str
    members: Mapping[str, str]
    size: int | None = None
    md5: str | None = None
    sha256: str | None = None
    lines_sha256: str | None = None

    def __post_init__(self) -> None:
        if not self.url.startswith(("https://", "http://")):
            raise ValueError(f"{self.url!r} is neither http nor https")
        for name in (self.saved_as, *self.members.values()):
            if name != Path(name).name or name in {"", "..", RECORD}:
                raise ValueError(f"{name!r} is not the plain name of a file")
        object.__setattr__(self, "members", MappingProxyType(dict(self.members)))


@dataclass(frozen=True)
class Dataset:
    """A public data set.

    Attributes
    ----------
    name
        What it is called here, and the folder it gets.
    title, contents
        What it is, and how much of it.
    files
        What is downloaded.
    terms
        What its owners ask of those who use it. To be shown before the first download.
    citation
        What to cite.
    """

    name: str
    title: str
    contents: str
    files: tuple[RemoteFile, ...]
    terms: str
    citation: str

    @property
    def yields(self) -> tuple[str, ...]:
        """The names of the files in the folder."""
        return tuple(name for file in self.files for name in file.members.values())

    @property
    def size(self) -> int | None:
        """Bytes to download, where known."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size is not None)


_GROUPLENS = "https://files.grouplens.org/datasets/movielens/"
_LIGHTGCN = "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/master/data/yelp2018/"
_MOVIELENS_TERMS = (
    "MovieLens data come from GroupLens Research at the University of Minnesota and are for research: name them in "
    "publications, claim no endorsement, pass them on to nobody and make no money with them unless GroupLens agrees. "
    "The full terms are in the README that is unpacked with the data."
)
_MOVIELENS_CITATION = (
    "F. M. Harper and J. A. Konstan. 2015. The MovieLens Datasets: History and Context. "
    "ACM Transactions on Interactive Intelligent Systems 5, 4, Article 19."
)
_YELP_TERMS = (
    "Derived from the Yelp Dataset Challenge 2018. Yelp allows academic use only and no passing on; read the terms at "
    "https://www.yelp.com/dataset before you download."
)
_YELP_CITATION = (
    "X. Wang, X. He, M. Wang, F. Feng and T.-S. Chua. 2019. Neural Graph Collaborative Filtering. SIGIR 2019. "
    "X. He, K. Deng, X. Wang, Y. Li, Y. Zhang and M. Wang. 2020. LightGCN. SIGIR 2020."
)

# The MD5 sums are those GroupLens publishes beside its archives. The lists of Yelp2018 circulate with the items of a
# line in different orders, so that their content is what is compared.
_TABLE = (
    Dataset(
        name="ml-100k",
        title="MovieLens 100K",
        contents="100,000 ratings of 1,682 films by 943 users, with titles",
        files=(
            RemoteFile(
                url=_GROUPLENS + "ml-100k.zip",
                saved_as="ml-100k.zip",
                members={"ml-100k/u.data": "u.data", "ml-100k/u.item": "u.item", "ml-100k/README": "README"},
                size=4_924_029,
                md5="0e33842e24a9c977be4e0107933c0723",
                sha256="50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
            ),
        ),
        terms=_MOVIELENS_TERMS,
        citation=_MOVIELENS_CITATION,
    ),
    Dataset(
        name="ml-1m",
        title="MovieLens 1M",
        contents="1,000,209 ratings of 3,706 films by 6,040 users, with titles",
        files=(
            RemoteFile(
                url=_GROUPLENS + "ml-1m.zip",
                saved_as="ml-1m.zip",
                members={
                    "ml-1m/ratings.dat": "ratings.dat",
                    "ml-1m/movies.dat": "movies.dat",
                    "ml-1m/README": "README",
                },
                size=5_917_549,
                md5="c4d9eecfca2ab87c1945afe126590906",
                sha256="a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
            ),
        ),
        terms=_MOVIELENS_TERMS,
        citation=_MOVIELENS_CITATION,
    ),
    Dataset(
        name="ml-10m",
        title="MovieLens 10M",
        contents="10,000,054 ratings of 10,677 films by 69,878 users, with titles",
        files=(
            RemoteFile(
                url=_GROUPLENS + "ml-10m.zip",
                saved_as="ml-10m.zip",
                members={
                    "ml-10M100K/ratings.dat": "ratings.dat",
                    "ml-10M100K/movies.dat": "movies.dat",
                    "ml-10M100K/README.html": "README.html",
                },
                size=65_566_137,
                md5="ce571fd55effeba0271552578f2648bd",
                sha256="813c411ccb6122564edfe752e7f80c4dcc5aa25fa94c93622f6877a7ba252862",
            ),
        ),
        terms=_MOVIELENS_TERMS,
        citation=_MOVIELENS_CITATION,
    ),
    Dataset(
        name="yelp2018",
        title="Yelp2018, as split for NGCF and LightGCN",
        contents="1,561,406 visits to 38,048 places by 31,668 users: 1,237,259 to train on, 324,147 to test",
        files=(
            RemoteFile(
                url=_LIGHTGCN + "train.txt",
                saved_as="yelp2018-train.txt",
                members={"": "train.txt"},
                size=6_904_880,
                lines_sha256="5588ebbcbf9ab10cdf7a70aa300f2ef781030daa2a94ef0685598ed051a398da",
            ),
            RemoteFile(
                url=_LIGHTGCN + "test.txt",
                saved_as="yelp2018-test.txt",
                members={"": "test.txt"},
                size=1_986_152,
                lines_sha256="b085561974bf62aaa99279ac5572b0f7540990e6fdbea0d607a0c3f4ca1271cb",
            ),
        ),
        terms=_YELP_TERMS,
        citation=_YELP_CITATION,
    ),
)
DATASETS: Mapping[str, Dataset] = MappingProxyType({dataset.name: dataset for dataset in _TABLE})
