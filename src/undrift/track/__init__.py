"""Trackers of experiments, as observers of a run: TensorBoard, MLflow, Weights & Biases, Trackio. Each needs its package.

A tracker is handed every recorded round, the setting and how the run ended. It can do a run no harm: if its disk is full or its
server away, that is said once, and the run goes on without it.
"""

from .following import follow, remembered
from .to_mlflow import mlflow
from .to_tensorboard import tensorboard
from .to_trackio import trackio
from .to_wandb import wandb
from .tracker import Beginning, Tracker
from .words import tracker_from

__all__ = [
    "Beginning", "Tracker", "follow", "mlflow", "remembered", "tensorboard", "tracker_from", "trackio", "wandb",
]  # fmt: skip
