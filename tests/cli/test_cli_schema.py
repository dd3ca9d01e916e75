"""The JSON Schema of study files is made from the types that check them, and agrees with them."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest

import undrift
from undrift.algorithms import METHODS
from undrift.studies.catalogue import PROBLEMS
from undrift.studies.json_schema import document
from undrift.studies.method import parameters_of

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "study.schema.json"
SCHEMA = document()
VALID = jsonschema.Draft202012Validator(SCHEMA)
EXAMPLES = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "study-files.md").read_text(encoding="utf-8"), re.DOTALL)


def test_the_file_in_the_documentation_is_current(cli):
    said = cli("schema")
    assert said.code == 0
    assert said.json == SCHEMA
    assert json.loads(FILE.read_text(encoding="utf-8")) == SCHEMA, (
        "make it anew: undrift schema > docs/study.schema.json"
    )


def test_every_problem_and_every_method_stands_there_with_its_keys():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    parts = SCHEMA["$defs"]
    for kind, choices in (("problem", PROBLEMS), ("method", METHODS)):
        for name, factory in choices.items():
            assert set(parts[f"{kind}_{name}"]["properties"]) >= {"name", *parameters_of(factory)}


@pytest.mark.parametrize("text", [*EXAMPLES, (Path(undrift.__file__).parent / "studies" / "demo.toml").read_text()])
def test_studies_that_are_right(text):
    VALID.validate(tomllib.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        "[problem]\nname = 'quadratik'",
        "[problem]\nname = 'quadratic'\nclient = 3",
        "[problem]\nname = 'quadratic'\ndim = 0",
        "[run]\nrounds = 2.5",
        "[run]\nsteps = { low = 2, hihg = 3 }",
        "[run]\nsteps = true",
        "[run]\noracle = { minibatch = 'many' }",
        "[run]\nlink = { up = 0 }",
        "[[method]]\neta = 0.1",
        "[[method]]\nname = 'fedlin'\netta = 0.1",
        "[[method]]\nname = 'fedlin'\neta = []",
        "[[method]]\nname = 'fedlin'\neta = { schedule = 'inverse', scale = 1.0 }",
        "[runs]\nrounds = 2",
    ],
)
def test_studies_that_are_wrong(text):
    with pytest.raises(jsonschema.ValidationError):
        VALID.validate(tomllib.loads(text))


def test_a_method_of_ones_own_may_have_any_keys():
    VALID.validate(tomllib.loads("[[method]]\nname = 'mine.py:factory'\nstrength = 3"))
