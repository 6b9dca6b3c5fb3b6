"""
Rows: what a table is, and how rows are found.

One file per table or pair of tables: the row class with its columns and checksum, and the
statements that several modules use. `reader` has the only finders; `row_cache` keeps rows;
`snapshot` is the transaction of reading verbs. Nothing here knows what a change means.
"""
