"""Routes about the server as a whole: its health and settings, tokens, backups and jobs."""
