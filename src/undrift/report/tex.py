"""Words for TeX. What comes from a file is text and stays text: no letter of it is a command."""

from __future__ import annotations

from matplotlib.mathtext import MathTextParser

from ..errors import InputError

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "τ": r"$\tau$",
    "η": r"$\eta$",
    "β": r"$\beta$",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "σ": r"$\sigma$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "–": "--",
    "−": "$-$",
    "…": r"\ldots{}",
}


def as_tex(text: str) -> str:
    """The text for TeX; letters that its usual fonts do not have become question marks.

    >>> print(as_tex("top_k ↑5 \\\\input{x} $"))
    top\\_k $\\uparrow$5 \\textbackslash{}input\\{x\\} \\$
    """
    return "".join(SPECIAL.get(letter) or (letter if letter.isascii() else "?") for letter in text)


def checked_formula(where: str, text: str, tex: bool) -> str:
    """The user's own words, which may hold formulas between dollars; refuses formulas that cannot be read."""
    if not tex:
        try:
            MathTextParser("path").parse(text)
        except ValueError as error:
            why = str(error).strip().splitlines()[-1]
            raise InputError(
                f"{where}: {text!r} is no formula that can be set ({why}): mend it, or escape a dollar as \\$"
            ) from None
    return text
