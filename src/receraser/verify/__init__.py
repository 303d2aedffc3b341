"""The verifier: what somebody can check of a store who trusts nobody. Made to be read to the end, in this order.

::

    checks       what is checked, in which order, and how a failure is told: begin here
    evidence     what lies there?                    the folder's bytes, each file held against its name
    content      what do the files hold?             the digest computed anew from rows, settings and weights
    signatures   who vouches for a signature?        keys from outside the store, not those it names
    case         what follows from all of that?      ledger, signers, certificates, derived once for every check
    state        is the state whole?                 manifest, files, strays, content, level, wishes, pending
    signed       was it published by whom it should? ledger, signers, checkpoint, certificates, state
    papers       is it this store's?                 a certificate, a receipt, a checkpoint kept elsewhere
    replay       were the weights learned from it?   fits again and compares bits; needs torch, nothing else here does

`words` (sentences) and `names` (of models and partitions) can be looked up. The forms of what is signed, and the
arithmetic of proofs, are those of `receraser.proof`: `manifest`, `ledger`, `certificate`, `receipt` say what each may
hold, `issued` takes certificates and checkpoints out of their envelopes, `signing`, `merkle`, `commitment` compute.
Nothing here writes, and nothing that computes a model is loaded but to replay.

When all checks hold, the state and the ledger are what the holder of the signing key published. It does not follow that
the weights were learned from the rows (`replay` shows that), that nothing is left of what was forgotten elsewhere
(`receraser.residue` searches), or that this is the newest state (a checkpoint kept elsewhere shows that).
docs/verifying.md says what each check proves.
"""
