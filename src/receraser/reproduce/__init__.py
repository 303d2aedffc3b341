"""The paper's tables and figures, and what goes past them, by one command each: ours beside theirs.

::

    order     what was asked for: a study, a data set, models, methods, seeds, a device, a folder
    settings  which configuration stands for a method on a data set, and which preset it was taken from
    studies   a module for each table or figure: which cells it needs, and the page and the picture made of them
    cell      one unit of work, named by the digest of all its inputs; what came out of it
    kept      finished cells in a folder: a second run does only what is missing
    measuring how a cell is computed; `forgetting` those in which somebody is forgotten
    runner    the cells that are missing, in an order that shares work, with the time that is left
    document  the JSON file of a study: all that its page and its picture are made of
    report    results to JSON, and of that to Markdown, PNG and SVG
    paper     the paper's own numbers

Whatever computes needs numpy, scipy and torch alone, so that cells can be made where nothing else is installed
(`python -m receraser.reproduce`); pages and pictures are made of them anywhere, later.

The protocol: hyperparameters, epochs and merges are chosen on validation rows; the test rows are opened once, for the
final figures. (The published code stopped on the test rows.)
"""
