"""
The log: the past, read.

`lists` reads lists of entries, `state_at` the state at a moment, `replay` recomputes a key from
its source changes with `operators`, `resolve_names` gives entries the present names of their
subjects. Nothing here writes, or knows which messages are visible.
"""
