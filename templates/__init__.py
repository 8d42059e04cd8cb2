"""Message templates, <language>/<item>.<format>.j2, and the console pages. Data only."""
