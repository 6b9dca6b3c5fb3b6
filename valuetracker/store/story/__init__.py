"""
The story: which changes are live, now or at a point of a chat.

`visibility` computes what values become when messages are hidden and shown, `point` which
changes belong to a point, `contents` all that a chat holds there, `former_sources` which changes
made a value of the past, `series` how series and processed ids are read. Nothing here writes.
"""
