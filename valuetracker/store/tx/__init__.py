"""
The writing transaction.

`ledger` is what a writing verb is given; its `apply` takes the `changes` and is the one way in
which rows and log are written (`apply`, `apply_values`, `apply_subjects`, `apply_places`,
`log_writer`). `write_target` finds what a write is about and refuses it, `places` registers and
shows messages, `binding`, `removal` and `branching` make the changes that several verbs need.
"""
