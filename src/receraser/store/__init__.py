"""A fitted engine at rest."""
