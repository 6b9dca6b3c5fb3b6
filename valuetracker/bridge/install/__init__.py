"""
The installer: copies the plugin and the extension into a SillyTavern folder.

It knows files and folders, and nothing of HTTP. Only `bundle` knows the folder of the packaged
files, and only `record` reads and writes `installed.json`.
"""
