"""What the figures of a page are called: title, vertical axis, scale."""

from __future__ import annotations

LABELS = {
    "gap": ("Relative gap", "(f(xₜ) − f*) / (f(x₀) − f*)", "log"),
    "accuracy": ("Test accuracy", "share of the test data that is classified rightly", "linear"),
    "loss": ("Loss", "f(xₜ)", "log"),
    "grad_norm": ("Gradient", "‖∇f(xₜ)‖", "log"),
    "epsilon": ("Privacy", "ε at the method's δ, for all data of one client", "linear"),
    "drift": ("Client drift", "mean of ‖yᵢ − ȳ‖ at the end of the local steps", "log"),
}
