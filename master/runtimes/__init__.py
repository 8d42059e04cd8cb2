"""Where pods run: one Protocol (`base.py`), one file a runtime."""
