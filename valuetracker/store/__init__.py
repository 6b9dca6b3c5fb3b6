"""
The store: the verbs of the API, as functions on an open transaction.

One file of verbs per file of `valuetracker/api`; a handler and its verb share a name. A reading
verb is given a `Snapshot`, a writing verb a `Ledger`. Below the verbs, `tx` is what a writing
transaction is, `story` which changes are live, `log` the past, `rows` what a table is. The
store knows nothing of HTTP, and only `rows` and `log` know SQL that several verbs share.
"""
