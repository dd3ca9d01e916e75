"""Files that speak for the project: README, manual, citation, packaging."""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import subprocess
import sys
import tomllib

import jsonschema
import pytest
import yaml
from site_pages import DOCS, ROOT

import undrift
from undrift.command import manual
from undrift.command.codes import EXIT_CODES
from undrift.command.parser import build_parser


@functools.cache
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_readme_fits_two_screens():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 90
    assert max(map(len, lines)) <= 132


def test_manual_is_what_the_parser_says():
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == manual.manual(), f"stale: {manual.COMMAND}"


def test_manual_has_every_command_flag_and_exit_code():
    text = manual.manual()
    commands = next(action.choices for action in build_parser()._actions if isinstance(action.choices, dict))
    for name, parser in commands.items():
        manual.complete(parser)
        section = text.partition(f"## `undrift {name}`\n")[2].partition("\n## ")[0]
        flags = [
            action.option_strings[0] for action in parser._actions if action.option_strings[:1] not in ([], ["-h"])
        ]
        assert [flag for flag in flags if not re.search(rf"^\| `{flag}[ ,`]", section, re.MULTILINE)] == [], name
        assert section.strip(), name
    assert "`--strict`" in text
    assert all(f"\n| {code} |" in text for code in EXIT_CODES)


def test_manual_knows_when_it_is_stale(tmp_path, capsys):
    page = tmp_path / "cli.md"
    assert manual.main([str(page), "--check"]) == 1
    assert manual.main([str(page)]) == 0
    assert manual.main([str(page), "--check"]) == 0
    page.write_text(page.read_text(encoding="utf-8") + "more\n", encoding="utf-8")
    assert manual.main([str(page), "--check"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"stale: {manual.COMMAND}",
        "up to date",
        f"stale: {manual.COMMAND}",
    ]


def test_citation_is_valid():
    """By the schema of the Citation File Format 1.2.0, of its authors (CC BY 4.0)."""
    schema = json.loads((ROOT / "tests" / "pages" / "citation-schema-1.2.0.json").read_text(encoding="utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(citation)
    assert citation["license"] == project()["project"]["license"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate({**citation, "type": "a program"})


def test_version_is_that_of_the_package():
    from importlib.metadata import version

    assert undrift.__version__ == version("undrift")
    assert "version" in project()["project"]["dynamic"]
    assert re.fullmatch(project()["tool"]["hatch"]["version"]["raw-options"]["tag_regex"], "v1.2.3")
    assert not re.fullmatch(project()["tool"]["hatch"]["version"]["raw-options"]["tag_regex"], "best-1.2.3")


def test_addresses_are_those_that_were_said():
    """The hook needs hatchling, which only builds have: its function is taken out of the file."""
    source = (ROOT / "hatch_build.py").read_text(encoding="utf-8")
    found: dict = {"Mapping": dict}
    exec(source[source.index("def addresses") :], found)
    assert found["addresses"]("", "", {}) == {}
    on_github = {"GITHUB_SERVER_URL": "https://forge.example", "GITHUB_REPOSITORY": "a/b"}
    assert found["addresses"]("", "", on_github)["Issues"] == "https://forge.example/a/b/issues"
    said = found["addresses"]("https://code.example/u", "https://u.example", on_github)
    assert said["Documentation"] == "https://u.example"
    assert set(said) == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}


@pytest.mark.parametrize("file", sorted(ROOT.glob(".github/**/*.yml")), ids=lambda file: file.stem)
def test_files_for_github_are_yaml(file):
    assert yaml.safe_load(file.read_text(encoding="utf-8"))


def test_release_publishes_by_trust_and_attests():
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    publish = release["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["steps"][-1]["with"] == {"attestations": True}
    assert set(publish["needs"]) == {"package", "test"}
    assert release["permissions"] == {"contents": "read"}


def test_hooks_are_those_of_the_environment():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in hooks["repos"]] == ["local"]
    assert {hook["id"] for hook in hooks["repos"][0]["hooks"]} >= {"ruff", "ruff-format", "mypy"}
    done = subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-config", str(ROOT / ".pre-commit-config.yaml")]
    )
    assert done.returncode == 0


def test_package_is_typed():
    assert importlib.util.find_spec("undrift").origin
    assert (ROOT / "src" / "undrift" / "py.typed").is_file()
    assert "Typing :: Typed" in project()["project"]["classifiers"]
