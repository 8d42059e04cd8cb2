"""The notifier over HTTP: routes translate, the services beside this package do the work."""
