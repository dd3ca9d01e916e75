"""MLflow, through its client: a server, or a data base on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from .tracker import Row, Tracker, needs, plain

BATCH = 1000  # metrics that the store takes at once
LONGEST = 500  # letters of a parameter that every version of it takes
STATUS = {"finished": "FINISHED", "interrupted": "KILLED"}
# A server that is away is asked for seconds, not for minutes; whoever has said otherwise is heard.
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "15"}
TAG = "undrift.id"


class MLflow(Tracker):
    kind = "mlflow"

    def __init__(self, uri: str | None = None, experiment: str = "undrift", name: str | None = None) -> None:
        super().__init__(name)
        needs(self.kind, "mlflow")
        self.uri, self.experiment = uri, experiment
        self.word = self.kind if uri is None else f"{self.kind}:{uri}"

    def open(self, name: str, setting: Mapping[str, Any], first: int) -> int | None:
        for key, value in PATIENCE.items():
            os.environ.setdefault(key, value)
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self.client = MlflowClient(tracking_uri=self.uri)
        known = self.client.get_experiment_by_name(self.experiment)
        place = self.client.create_experiment(self.experiment) if known is None else known.experiment_id
        found = self.client.search_runs([place], f"tags.`{TAG}` = '{self.id}'") if first else []
        if found:
            self.run = found[0].info.run_id
            self.client.update_run(self.run, "RUNNING")
            return 1 + max((m.step for m in self.client.get_metric_history(self.run, "loss")), default=-1)
        self.run = self.client.create_run(place, run_name=name, tags={TAG: self.id}).info.run_id
        texts = {key: str(value)[:LONGEST] for key, value in plain(setting).items()}
        self.client.log_batch(self.run, params=[Param(key, text) for key, text in texts.items()])
        return 0

    def log(self, rows: list[Row]) -> None:
        from mlflow.entities import Metric

        now = time.time_ns() // 1_000_000
        metrics = [Metric(key, value, now, t) for t, values in rows for key, value in values.items()]
        for start in range(0, len(metrics), BATCH):
            self.client.log_batch(self.run, metrics=metrics[start : start + BATCH])

    def close(self, status: str, final: Mapping[str, float]) -> None:
        self.client.set_tag(self.run, "undrift.status", status)
        self.client.set_terminated(self.run, STATUS.get(status, "FAILED"))


def mlflow(uri: str | None = None, experiment: str = "undrift", name: str | None = None) -> Tracker:
    """A run in this experiment: metrics by round, the setting as parameters, how it ended as its status.

    uri: a server (`http://…`) or a data base (`sqlite:///mlflow.db`); None: what MLflow itself would take.
    """
    return MLflow(uri, experiment, name)
