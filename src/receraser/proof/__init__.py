"""Proof for somebody who trusts nobody: commitments, a ledger, signatures, certificates. Pure values, no model."""
