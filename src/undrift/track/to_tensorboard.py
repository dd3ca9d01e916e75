"""TensorBoard, through tensorboardX: event files in a directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .tracker import Row, Tracker, needs, plain


class TensorBoard(Tracker):
    kind = "tensorboard"

    def __init__(self, directory: str | Path, name: str | None = None) -> None:
        super().__init__(name)
        needs(self.kind, "tensorboardX")
        self.directory = Path(directory)
        self.word = f"{self.kind}:{directory}"

    def open(self, name: str, setting: Mapping[str, Any], first: int) -> None:
        from tensorboardX import SummaryWriter
        from tensorboardX.summary import hparams

        # Readers drop what was logged from this step on before: rounds of a killed run that are played again, or of another.
        # Its files are named by the second, so two of one second need names of their own.
        own = f".{self.id[:8]}.{first}"
        self.writer = SummaryWriter(
            str(self.directory), purge_step=first, max_queue=1000, flush_secs=3600, filename_suffix=own
        )
        self.setting = plain(setting)
        experiment, session, _ = hparams(self.setting, {"loss": 0.0})
        self.writer.file_writer.add_summary(experiment)
        self.writer.file_writer.add_summary(session)

    def log(self, rows: list[Row]) -> None:
        for t, values in rows:
            for key, value in values.items():
                self.writer.add_scalar(key, value, t)
        self.writer.flush()

    def close(self, status: str, final: Mapping[str, float]) -> None:
        from tensorboardX.summary import hparams

        self.writer.add_text("status", status)
        if status == "finished":
            self.writer.file_writer.add_summary(hparams(self.setting, dict(final))[2])
        self.writer.close()


def tensorboard(directory: str | Path, name: str | None = None) -> Tracker:
    """Event files in this directory, one directory per run: `tensorboard --logdir DIRECTORY` shows all that lie below.

    >>> import tempfile, numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> folder = Path(tempfile.mkdtemp()) / "fedlin"
    >>> r = ud.run(ud.fedlin(eta=0.1), p, rounds=3, steps=5, observe=ud.track.tensorboard(folder))
    >>> [path.name.split(".")[0] for path in folder.iterdir()]
    ['events']
    """
    return TensorBoard(directory, name)
