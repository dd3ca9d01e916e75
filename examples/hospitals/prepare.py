"""Make the four files in data/ from the UCI heart disease data, which come with undrift: `python prepare.py`.

Kept are the features that all four hospitals have recorded, and the patients of whom all of these are known. Kinds of chest
pain and of ECG become columns of 0 and 1. A patient has the disease if the diagnosis is 1 to 4.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

import undrift as ud

HOSPITALS = ("cleveland", "hungary", "switzerland", "va")  # in the order of the data set
FEATURES = {  # from the columns of UCI's table: age, sex, cp, trestbps, chol, fbs, restecg, thalach, exang, oldpeak, …
    "age": lambda x: x[:, 0],
    "male": lambda x: x[:, 1],
    "typical_angina": lambda x: x[:, 2] == 1,
    "atypical_angina": lambda x: x[:, 2] == 2,
    "non_anginal_pain": lambda x: x[:, 2] == 3,
    "resting_pressure": lambda x: x[:, 3],
    "st_t_abnormality": lambda x: x[:, 6] == 1,
    "hypertrophy": lambda x: x[:, 6] == 2,
    "highest_pulse": lambda x: x[:, 7],
    "exercise_angina": lambda x: x[:, 8],
    "st_depression": lambda x: x[:, 9],
}
USED = [0, 1, 2, 3, 6, 7, 8, 9]


def main(folder: Path = Path(__file__).parent / "data") -> None:
    table = ud.data.load("heart", raw=True)
    x, disease, hospital = (
        np.concatenate([getattr(split, part) for split in (table.train, table.test)]) for part in ("x", "y", "group")
    )
    known = ~np.isnan(x[:, USED]).any(axis=1)
    for number, name in enumerate(HOSPITALS):
        own = known & (hospital == number)
        columns = [feature(x[own]) for feature in FEATURES.values()]
        rows = sorted([f"{value:.7g}" for value in row] for row in zip(*columns, disease[own], strict=True))
        folder.mkdir(exist_ok=True)
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*FEATURES, "disease"])
            writer.writerows(rows)


if __name__ == "__main__":
    main()
