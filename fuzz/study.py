"""Study files: any text is a study, or an `UndriftError`."""

from __future__ import annotations

from common import HERE, SCRATCH, fuzz, instrumented

with instrumented("undrift.studies", "undrift.gate", "tomllib"):
    import undrift as ud
    from undrift.studies.study import read_study

FILE = SCRATCH / "study.toml"

MORE = [
    b'[problem]\nname = "quadratic"\ndim = 3\nclients = 4\n[run]\nrounds = 5\nsteps = [1, 2, 3, 4]\n'
    b'[[method]]\nname = "fedlin"\n',
    b'[problem]\nname = "figure1"\n[run]\nrounds = 5\nseeds = 2\nfailures = 0.1\nstop = { gap = 1e-6 }\n'
    b'[[method]]\nname = "fedavg"\neta = [0.1, 1.0]\nlink = { up = { name = "top_k", k = 2, memory = false } }\n',
    b'[run]\nparticipation = "uniform(2)"\noracle = "minibatch(4)"\nrecord_every = 7\non_divergence = "continue"\n',
]


def one(data: bytes) -> None:
    FILE.write_bytes(data)
    try:
        study = read_study(FILE)
    except ud.UndriftError:
        return
    FILE.write_text(study.to_toml(), encoding="utf-8")  # what was accepted can be written and read again
    read_study(FILE)


def seeds() -> list[bytes]:
    root = HERE.parent
    files = [*root.glob("src/undrift/studies/*.toml"), *root.glob("examples/**/*.toml"), *root.glob("docs/**/*.toml")]
    return [file.read_bytes() for file in files] + MORE


if __name__ == "__main__":
    fuzz("study", seeds(), one)
