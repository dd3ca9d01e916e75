"""`python -m tests.golden`: write all texts anew, and say which have changed. Read the difference before you commit it."""

from __future__ import annotations

from .cases import TEXTS, cases


def main() -> None:
    made = {name: make() for name, make in cases().items()}
    TEXTS.mkdir(exist_ok=True)
    for path in sorted(TEXTS.glob("*.txt")):
        if path.stem not in made:
            path.unlink()
            print(f"removed  {path.name}")
    for name, text in made.items():
        path = TEXTS / f"{name}.txt"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"written  {path.name}")


if __name__ == "__main__":
    main()
