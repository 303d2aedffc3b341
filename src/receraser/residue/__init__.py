"""The search for what is left of those who were forgotten: in a store, and wherever else somebody says to look."""
