"""One module for each table or figure: which cells it needs, and the page and the picture made of what they found."""
