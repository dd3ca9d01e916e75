"""FedAvg on softmax regression as an expert writes it in PyTorch: the whole cohort in batched products, no autograd.

The models of a cohort are one array (members, features, classes), each local step is two batched products: the logits, and the
update, which is added in place. What is drawn and gathered for a round is prepared before its first step.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch


@dataclasses.dataclass
class Cohorts:
    """Samples of all clients, (clients, samples, features), labels (clients, samples), and what a member of a cohort does."""

    samples: torch.Tensor
    labels: torch.Tensor
    classes: int
    steps: int
    batch: int
    eta: float

    @classmethod
    def of(cls, samples: np.ndarray, labels: np.ndarray, classes: int, steps: int, batch: int, eta: float) -> Cohorts:
        return cls(torch.from_numpy(samples), torch.from_numpy(labels).long(), classes, steps, batch, eta)

    def rounds(self, x: torch.Tensor, cohorts: np.ndarray, threads: int = 2) -> torch.Tensor:
        """Rounds of FedAvg with these members; each walks through its samples in a random order of its own."""
        torch.set_num_threads(threads)
        ids = torch.from_numpy(np.asarray(cohorts)).long()
        with torch.inference_mode():
            for members in ids:
                x = self.round(x, members, self.walks(len(members)))
        return x

    def walks(self, members: int) -> torch.Tensor:
        """The samples that the members take, in order: fresh random orders one after the other."""
        count, needed = self.samples.shape[1], self.steps * self.batch
        orders = torch.rand(-(-needed // count), members, count).argsort(dim=2)
        return orders.transpose(0, 1).reshape(members, -1)[:, :needed]

    def round(self, x: torch.Tensor, members: torch.Tensor, walks: torch.Tensor) -> torch.Tensor:
        """One round from the model x, undrift's flat vector: weights (classes, features), then biases."""
        features, cohort = self.samples.shape[2], len(members)
        weight, bias = x[: -self.classes].view(self.classes, features).T, x[-self.classes :]
        weights = weight.repeat(cohort, 1, 1)
        biases = bias.repeat(cohort, 1, 1)
        places = (members[:, None] * self.samples.shape[1] + walks).view(cohort, self.steps, self.batch)
        places = places.transpose(0, 1).reshape(self.steps, -1)
        batches = self.samples.view(-1, features)[places].view(self.steps, cohort, self.batch, features)
        labels = self.labels.view(-1)[places].view(self.steps, cohort, self.batch, 1)
        share = self.eta / self.batch
        for inputs, targets in zip(batches, labels, strict=True):
            off = torch.softmax(torch.baddbmm(biases, inputs, weights), dim=2)
            off.scatter_add_(2, targets, off.new_full((1, 1, 1), -1.0).expand(targets.shape))
            weights.baddbmm_(inputs.transpose(1, 2), off, alpha=-share)
            biases.sub_(off.sum(1, keepdim=True), alpha=share)
        return torch.cat([weights.mean(0).T.reshape(-1), biases.mean(0).view(-1)])
