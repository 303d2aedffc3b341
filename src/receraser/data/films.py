"""`films`: a small made-up film catalogue with people who have taste, for the demo, the tutorials and the tests.

About 2,000 people, 1,000 films and 100,000 rows. A film has genres, a year and a popularity (a few are seen by many,
most by few); a person has a taste group, a circle within it that passes films on, a favourite era and an appetite.
So a factor model finds twice what popularity finds, and where a person is forgotten, their circle notices first.
It is all made up. `worlds` makes large worlds for measurements; this one is for people to look at.

Every row is decided by comparing integers drawn with `seeds`; no logarithm, power or float sum takes part, so the
rows are the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from receraser import seeds
from receraser.data.interactions import Interactions
from receraser.data.worlds import heavy_tailed

__all__ = ["N_FILMS", "N_USERS", "FilmWorld", "films"]

N_USERS = 2000
N_FILMS = 1000

Weights = NDArray[np.int64]

# What a film of each genre may be about. A title is one of these with a quality, a place or a moment.
_THINGS: dict[str, tuple[str, ...]] = {
    "adventure": ("Rope Bridge", "Compass", "Balloon", "Caravan", "Sledge", "Causeway", "Monsoon", "Tin Canoe"),
    "animation": ("Hedgehog", "Teapot", "Snowplough", "Umbrella", "Dormouse", "Biscuit Tin", "Kite", "Puddle"),
    "comedy": ("Landlord", "Parking Space", "Wedding Cake", "Accordion", "Dentist", "Choir", "Lawnmower", "Buffet"),
    "crime": ("Ledger", "Alibi", "Pawnbroker", "Cloakroom", "Raincoat", "Strongroom", "Cufflink", "Tram Ticket"),
    "documentary": ("Salt Works", "Beekeeper", "Tidal Mill", "Archive", "Glacier", "Loom", "Bakery", "Signal Box"),
    "drama": ("Inheritance", "Orchard", "Kitchen Table", "Piano Tuner", "Apprentice", "Letter", "Staircase", "Harvest"),
    "fantasy": ("Lantern", "Hollow Oak", "Cloudsmith", "Riddle", "Moss King", "Bell Tower", "Tinker", "Silver Thimble"),
    "history": ("Cartographer", "Printing House", "Aqueduct", "Treaty", "Shipyard", "Ropewalk", "Observatory", "Mint"),
    "horror": ("Cellar", "Wallpaper", "Scarecrow", "Boarding House", "Dumbwaiter", "Marsh", "Attic Clock", "Old Well"),
    "musical": ("Bandstand", "Understudy", "Tambourine", "Tea Dance", "Overture", "Footlight", "Barrel Organ", "Revue"),
    "mystery": ("Postmark", "Sundial", "Locksmith", "Chess Problem", "Missing Page", "Locket", "Footprint", "Cipher"),
    "romance": ("Ferry", "Bookshop", "Dance Card", "Postcard", "Rowing Boat", "Lemon Tree", "Platform Bench", "Waltz"),
    "science fiction": ("Orbit", "Greenhouse Ship", "Automaton", "Relay", "Outpost", "Airlock", "Comet", "Signal"),
    "western": ("Water Tower", "Prospector", "Saddle", "Stagecoach", "Dry Creek", "Fence Line", "Blacksmith", "Corral"),
}
_QUALITIES = (
    "Amber", "Barefoot", "Borrowed", "Brass", "Careful", "Copper", "Crooked", "Distant", "Drowsy", "Eleventh",
    "Faithful", "Folded", "Gentle", "Half-Painted", "Honest", "Idle", "Left-Handed", "Lopsided", "Marmalade",
    "Misplaced", "Modest", "Nameless", "Obstinate", "Patchwork", "Patient", "Pocket", "Reluctant", "Rented", "Salted",
    "Second-Hand", "Sleepless", "Spare", "Tangled", "Threadbare", "Unposted", "Upside-Down", "Walnut", "Wandering",
    "Weathered", "Whistling",
)  # fmt: skip
_PLACES = (
    "Aldermoor", "Bellwick", "Brindle Bay", "Candlemere", "Corrowdale", "Dunlarch", "Eastering", "Fennimoor",
    "Gullhaven", "Harrowmere", "Inchmallow", "Juniper Reach", "Kestrel Row", "Larkminster", "Marrowmere", "Nettlemoor",
    "Oxbow Lane", "Pellworth", "Quillhaven", "Rookmarsh", "Saltmarket", "Thistledown", "Ullerwater", "Vennacre",
    "Wrenfield", "Yarrowgate",
)  # fmt: skip
_MOMENTS = (
    "after Closing Time", "after the Rain", "at Low Tide", "at Quarter to Nine", "before Breakfast", "beyond the Pier",
    "by Candlelight", "by Return of Post", "for Beginners", "in Late October", "in the Fog", "next Door", "on Mondays",
    "out of Season", "under the Stairs", "until Thursday", "with Two Handles", "without a Map",
)  # fmt: skip

# Name, how many of a hundred people belong to it, and the genres it loves and likes.
_GROUPS: tuple[tuple[str, int, tuple[str, ...], tuple[str, ...]], ...] = (
    ("Sunday Matinee", 16, ("comedy", "romance"), ("musical",)),
    ("Night Ferry", 14, ("crime", "mystery"), ("drama",)),
    ("Deep Orbit", 13, ("science fiction",), ("adventure", "fantasy")),
    ("Kitchen Sink", 11, ("drama",), ("romance", "crime")),
    ("Picture Book", 10, ("animation", "fantasy"), ("comedy",)),
    ("Cold Cellar", 9, ("horror",), ("mystery", "science fiction")),
    ("True Stories", 7, ("documentary",), ("history",)),
    ("Dust and Spurs", 6, ("western",), ("adventure",)),
    ("Footlights", 5, ("musical",), ("comedy", "romance")),
    ("Old Maps", 4, ("history", "adventure"), ("documentary",)),
    ("Lantern Walk", 3, ("fantasy",), ("mystery", "history")),
    ("Last Tram", 2, ("mystery",), ("documentary", "western")),
)
_INDIFFERENT, _LIKED, _LOVED = 1, 8, 24  # how much likelier a film is seen by a group, per unit of its popularity
_CIRCLES = ("front row", "balcony", "back row")  # each group falls into circles who pass films on to each other:
_FAVOURITE_ONE_IN, _FAVOURITE = 12, 32  # one film in twelve is a circle's own, and that many times likelier to be seen
_FIRST_YEAR, _LAST_YEAR = 1934, 2024
_ERAS = (1970, 2000)  # the years in which the middle era and the recent one begin


@dataclass(frozen=True)
class FilmWorld:
    """The catalogue and its people.

    Attributes
    ----------
    interactions
        Who saw what: users "u0001" and on, films "f0001" and on. Splitting it is up to the caller (`splits`).
    titles
        Film id to title with year.
    genres
        Film id to one or two genres, the first one the stronger.
    taste_group_of
        User id to the name of the taste group. No model sees it; it is there to explain what a model found.
    circle_of
        User id to the name of the circle within the group, "Night Ferry, balcony": those who would miss them first.
    """

    interactions: Interactions
    titles: dict[str, str]
    genres: dict[str, tuple[str, ...]]
    taste_group_of: dict[str, str]
    circle_of: dict[str, str]


def films(seed: int = 7) -> FilmWorld:
    """Make the film world of a seed.

    Examples
    --------
    >>> world = films()
    >>> world.interactions
    Interactions(102563 rows, 2000 users, 1000 items)
    >>> world.titles["f0001"], world.genres["f0001"], world.taste_group_of["u0001"]
    ('The Obstinate Archive (1972)', ('documentary', 'fantasy'), 'Night Ferry')
    """
    film_ids = [f"f{number:04d}" for number in range(1, N_FILMS + 1)]
    user_ids = [f"u{number:04d}" for number in range(1, N_USERS + 1)]
    genres = _genres(seed)
    years = _years(seed)
    group_of = _groups(seed)
    circle_of = group_of * len(_CIRCLES) + _draws(seed, "circle", N_USERS, len(_CIRCLES))
    circles = [f"{name}, {circle}" for name, _, _, _ in _GROUPS for circle in _CIRCLES]
    seen = _seen(seed, circle_of, _appeal(seed, genres), years)
    rows = Interactions.from_indices(
        user_ids,
        film_ids,
        np.repeat(np.arange(N_USERS), [len(own) for own in seen]),
        np.concatenate(seen),
    )
    return FilmWorld(
        interactions=rows,
        titles=dict(zip(film_ids, _titles(seed, genres, years), strict=True)),
        genres=dict(zip(film_ids, genres, strict=True)),
        taste_group_of={user: _GROUPS[group][0] for user, group in zip(user_ids, group_of.tolist(), strict=True)},
        circle_of={user: circles[circle] for user, circle in zip(user_ids, circle_of.tolist(), strict=True)},
    )


# ---------------------------------------------------------------------- the films


def _draws(seed: int, purpose: str, n: int, bound: int) -> Weights:
    return seeds.below(seeds.derive(seed, "films", purpose), np.arange(n), bound)


def _genres(seed: int) -> list[tuple[str, ...]]:
    """One genre each, and for two films in five a second one."""
    names = tuple(_THINGS)
    first = _draws(seed, "genre", N_FILMS, len(names))
    step = _draws(seed, "second genre", N_FILMS, len(names) - 1)  # 0 to 12 places further on: never the same again
    second = (first + 1 + step) % len(names)
    has_second = _draws(seed, "has second genre", N_FILMS, 5) < 2
    return [
        (names[a], names[b]) if both else (names[a],)
        for a, b, both in zip(first.tolist(), second.tolist(), has_second.tolist(), strict=True)
    ]


def _years(seed: int) -> Weights:
    """Years of release: the later of two even draws, so that there are more recent films than old ones."""
    span = _LAST_YEAR - _FIRST_YEAR + 1
    return _FIRST_YEAR + np.maximum(_draws(seed, "year", N_FILMS, span), _draws(seed, "year again", N_FILMS, span))


def _titles(seed: int, genres: list[tuple[str, ...]], years: Weights) -> list[str]:
    """One title per film; a name already taken is drawn again."""
    key = seeds.derive(seed, "films", "title")
    taken: set[str] = set()
    titles = []
    for film, (own, year) in enumerate(zip(genres, years.tolist(), strict=True)):
        attempt = 0
        while (name := _title(int(seeds.draw(key, np.array([film * 1000 + attempt]))[0]), own[0])) in taken:
            attempt += 1
        taken.add(name)
        titles.append(f"{name} ({year})")
    return titles


def _title(number: int, genre: str) -> str:
    """Turn one 64-bit draw into a name, digit by digit."""
    number, pattern = divmod(number, 4)
    number, thing = divmod(number, len(_THINGS[genre]))
    name = _THINGS[genre][thing]
    if pattern == 0:
        return f"The {name} of {_PLACES[number % len(_PLACES)]}"
    if pattern == 1:
        return f"The {name} {_MOMENTS[number % len(_MOMENTS)]}"
    quality = _QUALITIES[number % len(_QUALITIES)]
    return f"The {quality} {name}"


def _appeal(seed: int, genres: list[tuple[str, ...]]) -> Weights:
    """Return (n_circles, n_films) integers: how likely a film is seen by someone of a circle.

    Popularity falls off with rank as (rank + 50)^(-3/2), its root taken in integers. A group loves, likes or does not
    care for a film by its genres; and each circle within the group passes on some films of its own.
    """
    popularity = np.array([10**6 // isqrt((rank + 50) ** 3) for rank in range(N_FILMS)])
    popularity = popularity[seeds.permutation(seeds.derive(seed, "films", "popularity"), N_FILMS)]
    appeal = []
    for name, _, loved, liked in _GROUPS:
        care = {genre: _LOVED if genre in loved else _LIKED if genre in liked else _INDIFFERENT for genre in _THINGS}
        by_genre = np.array([(2 * care[own[0]] + care[own[-1]]) // 3 for own in genres])
        for circle in _CIRCLES:
            own = _draws(seed, f"favourites of {name}, {circle}", N_FILMS, _FAVOURITE_ONE_IN) == 0
            appeal.append(popularity * by_genre * np.where(own, _FAVOURITE, 1))
    return np.array(appeal, dtype=np.int64)


# ---------------------------------------------------------------------- the people


def _groups(seed: int) -> Weights:
    shares = np.cumsum([share for _, share, _, _ in _GROUPS])
    return np.searchsorted(shares, _draws(seed, "group", N_USERS, int(shares[-1])), side="right")


def _appetites(seed: int) -> Weights:
    """How many films each person has seen: 8 to 320, most of them few."""
    sizes = heavy_tailed(seeds.derive(seed, "films", "appetite"), N_USERS, 4)
    return np.asarray(np.clip(sizes * 9 >> 18, 8, 320), dtype=np.int64)


def _seen(seed: int, circle_of: Weights, appeal: Weights, years: Weights) -> list[Weights]:
    """Return each person's films: the first so many different ones of an endless row of weighted draws."""
    second = _draws(seed, "second circle", N_USERS, len(appeal))
    era = np.searchsorted(_ERAS, years, side="right")
    favourite_era = _draws(seed, "favourite era", N_USERS, len(_ERAS) + 1)
    appetite = _appetites(seed)
    seen = []
    for user in range(N_USERS):
        weights = (6 * appeal[circle_of[user]] + appeal[second[user]]) * np.where(era == favourite_era[user], 3, 2)
        seen.append(
            _first_different(seeds.derive(seed, "films", "seen", user), np.cumsum(weights), int(appetite[user]))
        )
    return seen


def _first_different(key: int, upto: Weights, n: int) -> Weights:
    """Draw positions with the weights summed up in `upto` until there are `n` different ones."""
    n_draws = 2 * n
    while True:
        drawn = np.searchsorted(upto, seeds.below(key, np.arange(n_draws), int(upto[-1])), side="right")
        positions, first = np.unique(drawn, return_index=True)
        if len(positions) >= n:
            return positions[np.argsort(first)[:n]].astype(np.int64)
        n_draws *= 2
