"""The verifier: what somebody can check of a store who trusts nobody. Apart from the engine; no torch but to replay."""
