"""undrift in a Flower federation: a server app and a client app that run any study (`pip install 'undrift[flower]'`).

Identity, approval and life cycle are Flower's. In *ticket mode* one message of Flower opens undrift's own stream; in *message
mode* every exchange is a message of Flower, for federations where no second port can be opened and for Flower's simulation.
"""

from .apps import client_app, server_app

__all__ = ["client_app", "server_app"]
