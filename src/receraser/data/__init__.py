"""Interactions and where they come from: ids, readers, splits, built-in and downloadable data."""
