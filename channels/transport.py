"""The network as adapters see it. Targets are checked again at the connection actually dialled."""
