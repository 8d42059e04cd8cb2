"""The console at `/`: pages made on the server, no script at all; it reads, and does a few safe things."""
