"""What all targets share: seeds become a corpus, and the fuzzer starts."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))  # the honest inputs of the tests are the seeds
LONGEST = 4096  # bytes of one input
SCRATCH = Path(tempfile.mkdtemp(prefix="undrift-fuzz-"))
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)


def corpus(target: str) -> Path:
    return HERE / "corpus" / target


def plant(target: str, seeds: Iterable[bytes]) -> None:
    """Honest inputs, from which the fuzzer starts; a file is named by its content."""
    folder = corpus(target)
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (folder / hashlib.sha1(seed).hexdigest()[:16]).write_bytes(seed)


def fuzz(target: str, seeds: Iterable[bytes], one: Callable[[bytes], None]) -> None:
    """`python fuzz/TARGET.py --seeds` plants the seeds; with arguments of libFuzzer it fuzzes."""
    if "--seeds" in sys.argv:
        plant(target, seeds)
        return
    import atheris

    atheris.Setup([*sys.argv, f"-max_len={LONGEST}"], one)
    atheris.Fuzz()


def instrumented(*packages: str):
    """Imports inside this block are watched for coverage."""
    if "--seeds" in sys.argv:
        from contextlib import nullcontext

        return nullcontext()
    import atheris

    return atheris.instrument_imports(include=list(packages))
