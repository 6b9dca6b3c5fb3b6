"""
The bridge to a SillyTavern installation: its folders, its HTTP routes, its lorebooks.

The bridge knows nothing of databases. It writes only inside configured roots and follows no
symbolic link (see `folders`). It fetches only loopback and configured addresses (see
`origins`). DESIGN.md gives the reasons.
"""
