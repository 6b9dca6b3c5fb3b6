"""
The audit: whether the rows of a database agree with its log and with each other.

A checksum says that a row is as it was written. The audit says that it was right to write it: it
goes through the log of every subject from the first entry on, and compares what comes of it with
the rows. `POST /verify` runs it, and so does an import before it is committed.
"""
