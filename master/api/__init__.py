"""The master over HTTP: routes translate, the modules beside this package do the work."""
