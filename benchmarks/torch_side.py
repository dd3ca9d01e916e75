"""The opponents: the same networks, and the same round of FedAvg, as one writes them in PyTorch."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def lenet5() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(256, 120), nn.ReLU(inplace=True), nn.Linear(120, 84), nn.ReLU(inplace=True), nn.Linear(84, 10)),
    )


def vgg11() -> nn.Sequential:
    layers: list[nn.Module] = []
    before = 3
    for group in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
        for channels in group:
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU(inplace=True)]
            before = channels
        layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(512, 512), nn.ReLU(inplace=True), nn.Linear(512, 512), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Linear(512, 10))


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def load(model: nn.Module, x: np.ndarray) -> None:
    """undrift's flat vector is in PyTorch's order."""
    with torch.no_grad():
        vector_to_parameters(torch.from_numpy(np.array(x)), model.parameters())


def channels_first(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def logits_and_gradient(model: nn.Module, images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    model.zero_grad()
    logits = model(channels_first(images))
    cross_entropy(logits, torch.from_numpy(labels).long()).backward()
    return logits.detach().numpy(), torch.cat([p.grad.ravel() for p in model.parameters()]).numpy()


@dataclasses.dataclass
class Clients:
    """Data that live once, index sets, and what a client does."""

    images: torch.Tensor
    labels: torch.Tensor
    parts: list[torch.Tensor]
    steps: int
    batch: int
    eta: float
    decay: float

    def __post_init__(self) -> None:
        self.model = lenet5()
        self.solver = torch.optim.SGD(self.model.parameters(), lr=self.eta, weight_decay=self.decay)

    def descend(self, x: torch.Tensor, client: int) -> torch.Tensor:
        """Where the client's steps lead from x, walking through its own samples in a random order."""
        vector_to_parameters(x, self.model.parameters())
        part = self.parts[client]
        walks = -(-self.steps * self.batch // len(part))
        walk = part[torch.cat([torch.randperm(len(part)) for _ in range(walks)])]
        for chosen in walk[: self.steps * self.batch].split(self.batch):
            loss = cross_entropy(self.model(self.images[chosen]), self.labels[chosen])
            self.solver.zero_grad()
            loss.backward()
            self.solver.step()
        return parameters_to_vector(self.model.parameters()).detach()

    def total(self, x: torch.Tensor, members: Any) -> torch.Tensor:
        return sum((self.descend(x.clone(), int(i)) for i in members), torch.zeros_like(x))


class Workers:
    """Forked processes with one thread each, the clients of a round split between them; models go through shared memory."""

    def __init__(self, clients: Clients, dim: int, number: int = 2) -> None:
        context = multiprocessing.get_context("fork")
        self.x = torch.zeros(dim).share_memory_()
        self.totals = torch.zeros(number, dim).share_memory_()
        self.pipes = []
        for k in range(number):
            here, there = context.Pipe()
            context.Process(target=self._serve, args=(clients, k, there, here), daemon=True).start()
            there.close()
            self.pipes.append(here)

    def _serve(self, clients: Clients, k: int, pipe: Any, *others: Any) -> None:
        for other in (*self.pipes, *others):  # so that the pipe ends when the first process does
            other.close()
        torch.manual_seed(os.getpid())
        with contextlib.suppress(EOFError):
            while True:
                members = pipe.recv()
                self.totals[k] = clients.total(self.x, members)
                pipe.send(True)

    def rounds(self, x: torch.Tensor, cohorts: np.ndarray) -> torch.Tensor:
        self.x.copy_(x)
        for members in cohorts:
            for pipe, share in zip(self.pipes, np.array_split(members, len(self.pipes)), strict=True):
                pipe.send(share)
            for pipe in self.pipes:
                pipe.recv()
            self.x.copy_(self.totals.sum(0) / len(members))
        return self.x.clone()

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
