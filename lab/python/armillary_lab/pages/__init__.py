"""Documents that are made of studies: the tables of docs/reference/accuracy.md, and a study as a
page or on a terminal."""
