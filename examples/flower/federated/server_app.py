"""The server app: plays the study beside this file."""

from pathlib import Path

from undrift.flower import server_app

app = server_app(Path(__file__).parent / "study.toml")
