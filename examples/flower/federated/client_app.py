"""The client app: the part of a node, with its own data."""

from undrift.flower import client_app

app = client_app()
