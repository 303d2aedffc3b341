"""The base models, by name: BPR, WMF and LightGCN, each a pure function of rows, hyperparameters and seed."""
