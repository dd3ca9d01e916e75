"""The errors of the data room. Each text gives the rule, the value received and the remedy."""

from __future__ import annotations

from undrift.errors import InputError, UndriftError


class DataError(InputError):
    """Data that breaks a rule: a label outside its classes, a NaN pixel, a file of the wrong form."""


class PartitionError(DataError):
    """A partition that cannot be drawn as asked, or a map that is not an exact cover."""


class DownloadError(DataError):
    """A download that did not arrive, or arrived with the wrong checksum."""


class MissingDataError(UndriftError, FileNotFoundError):
    """A data set, file or directory that is not there; the text says how to obtain it."""
