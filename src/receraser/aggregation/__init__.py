"""Making one scorer of the submodels."""
