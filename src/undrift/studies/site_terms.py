"""What the sites of a problem tell of their data before the first round, and what follows from it for all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from ..errors import InputError
from ..gate import Count
from ..sums import weighted_on_host

LARGEST_MEAN, LARGEST_VARIANCE = 1e150, 1e300  # so that no square of a difference of means overflows
Form = TypeVar("Form", bound=msgspec.Struct)


class Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a site tells of its data."""

    samples: Count
    mean: list[float] = []  # of every feature, over the site's samples; empty unless standardised federatedly
    variance: list[float] = []

    @classmethod
    def of(cls, x: np.ndarray, federated: bool) -> Facts:
        """The facts of samples (n, d)."""
        if not federated:
            return cls(len(x))
        with np.errstate(over="ignore", invalid="ignore"):  # refused by name when they are read
            return cls(len(x), np.mean(x, axis=0).tolist(), np.var(x, axis=0).tolist())

    @classmethod
    def read(cls, told: bytes, features: int) -> Facts:
        """From bytes of unknown origin; `features`: how many are standardised."""
        facts = _decoded(told, cls, "the facts of a site")
        _check_numbers("the means of a site's features", facts.mean, features, -LARGEST_MEAN, LARGEST_MEAN)
        _check_numbers("the variances of a site's features", facts.variance, features, 0.0, LARGEST_VARIANCE)
        return facts

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that follows from the facts; every site is told."""

    samples: Annotated[list[Count], Meta(min_length=1)]
    mean: list[float] = []  # of all samples together
    scale: list[float] = []  # their standard deviation

    @classmethod
    def of(cls, facts: Sequence[Facts]) -> Terms:
        """From the facts of all sites: means weighted by their numbers of samples.

        >>> Terms.of([Facts(1, [0.0], [0.0]), Facts(3, [4.0], [0.0])])
        Terms(samples=[1, 3], mean=[3.0], scale=[1.7320508075688772])
        """
        if not facts:
            raise InputError("a run needs at least one site, got none: name them")
        samples = [one.samples for one in facts]
        if not facts[0].mean:
            return cls(samples)
        total = math.fsum(samples)
        share = np.array(samples, np.float64) / total
        means = np.array([one.mean for one in facts])
        mean = weighted_on_host(share, means)
        variance = weighted_on_host(share, np.array([one.variance for one in facts]) + (means - mean) ** 2)
        scale = np.sqrt(variance)
        # The variance of a constant is rounding and nothing else: such a feature is only centred, as in scikit-learn.
        scale = np.where(scale <= total * np.finfo(np.float64).eps * np.abs(mean), 1.0, scale)
        return cls(samples, mean.tolist(), scale.tolist())

    @classmethod
    def read(cls, told: bytes, features: int) -> Terms:
        """From bytes of unknown origin; `features`: how many are standardised."""
        terms = _decoded(told, cls, "the terms of the run")
        smallest = float(np.finfo(np.float64).tiny)
        _check_numbers("the means in the terms", terms.mean, features, -LARGEST_MEAN, LARGEST_MEAN)
        _check_numbers("the scales in the terms", terms.scale, features, smallest, LARGEST_MEAN)
        return terms

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)


def _decoded(told: bytes, form: type[Form], what: str) -> Form:
    try:
        return msgspec.msgpack.decode(told, type=form)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise InputError(f"{what} cannot be read ({str(error)[:300]}): do both sides run the same undrift?") from None


def _check_numbers(what: str, numbers: list[float], entries: int, least: float, most: float) -> None:
    if len(numbers) != entries:
        raise InputError(f"{what} must be {entries} numbers, got {len(numbers)}: do both sides have the same study?")
    for place, number in enumerate(numbers):
        if not least <= number <= most:  # false for NaN as well
            raise InputError(
                f"{what} must be from {least:g} to {most:g}, number {place} is {number}: rescale that feature"
            )
