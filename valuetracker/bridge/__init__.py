"""
What talks to a SillyTavern install: its folders, its HTTP, its world files.

Knows nothing of databases. Every path that is written lies in a configured root and is
reached through no symbolic link (see `folders`); every address that is fetched is loopback
or configured (see `origins`). DESIGN.md says why it is as it is.
"""
