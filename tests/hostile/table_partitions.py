"""Partitions that cannot be drawn, and map files that are none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hostile_case import Case
from hostile_files import MISSING


def of_partition(name: str, flags: str, *says: str, code: int = 2, **files: Any) -> Case:
    words = ("partition", "--data-dir", ".", "--cache-dir", "cache", "--out", "r", *flags.split())
    return Case(
        f"partition: {name}",
        says,
        words,
        files={key.replace("_json", ".json"): v for key, v in files.items()},
        code=code,
    )


MAP = "--how from_map:m.json"
ALL = list(range(1438))
SHAPE = "{'client': [sample indices]}"


def of_map(name: str, content: Any, *says: str, code: int = 2) -> Case:
    content = content if isinstance(content, str | bytes) or callable(content) else json.dumps(content)
    return of_partition(f"map, {name}", MAP, *says, code=code, m_json=content)


CASES = [
    of_partition("alpha NaN", "--how dirichlet:alpha=nan", "alpha must be a finite number", "got nan"),
    of_partition("alpha 0", "--how dirichlet:alpha=0", "alpha must be a number > 0", "got 0"),
    of_partition("alpha negative", "--how exdir:classes=2,alpha=-1", "alpha must be a number > 0", "got -1"),
    of_partition("alpha infinite", "--how exdir:classes=2,alpha=inf", "alpha must be a finite number", "got inf"),
    of_partition("no clients", "--how iid --clients 0", "clients must be", "1", "got 0"),
    of_partition("clients negative", "--how iid --clients -3", "clients must be", "1", "got -3"),
    of_partition(
        "too many clients", "--how iid --clients 2000", "no client may be empty", "got 1438", "at most 1438 clients"
    ),
    of_partition(
        "a million clients", "--how dirichlet:alpha=1 --clients 1000000", "no client may be empty", "got 1438"
    ),
    of_partition("more classes than there are", "--how pathological:11", "classes=11", "of 10", "take classes <= 10"),
    of_partition("no classes", "--how pathological:0", "classes must be a whole number ≥ 1", "got 0"),
    of_partition(
        "classes left over", "--how exdir:1,alpha=1 --clients 3", "every class needs a client", "at most 3 of 10"
    ),
    of_partition(
        "minimum too large", "--how iid:min_size=100", "every client needs min_size=100", "got 1438", "lower min_size"
    ),
    of_partition(
        "minimum negative", "--how iid:min_size=-1", "min_size must be a whole number ≥ 1", "got -1", "leave it out"
    ),
    of_partition("seed negative", "--how iid --seed -1", "seed", "0", "got -1"),
    of_partition(
        "no groups", "--how by_group", "by_group needs data with groups", "digits has none", "try mnist-writers"
    ),
    of_partition("unknown way", "--how dirichlett:1", "unknown partition 'dirichlett'", "did you mean 'dirichlet'"),
    of_partition(
        "unknown data", "--how iid --data digit", "must be one of digits", "got 'digit'", "did you mean 'digits'"
    ),
    of_partition("map missing", MAP, "m.json does not exist", "check the path", code=MISSING),
    of_map("a directory", Path.mkdir, "must be a file", "it is a directory", "name the file itself"),
    of_map("a pipe", os.mkfifo, "must be a file", "it is a pipe", "name the file itself"),
    of_map("empty", "", "is not valid JSON", SHAPE),
    of_map("bytes", bytes(range(256)), "is not valid JSON", SHAPE),
    of_map("UTF-16 cut", "{}".encode("utf-16")[:-1], "is not valid JSON", SHAPE),
    of_map("deep nesting", "[" * 100_000 + "]" * 100_000, "is not valid JSON", "recursion", SHAPE),
    of_map("deep objects", '{"a":' * 100_000, "is not valid JSON", "recursion", SHAPE),
    of_map("a list", [ALL], "must hold an object", "got a list", "convert it"),
    of_map("a number", 7, "must hold an object", "got a int", "convert it"),
    of_map("nobody", {}, "at least one client", "got none", '{"client": [sample indices]}'),
    of_map("samples in lists", {"0": [ALL]}, "flat list of integers", "shape (1, 1438)", "list sample indices only"),
    of_map(
        "samples in many lists",
        '{"0": ' + "[" * 200 + "0" + "]" * 200 + "}",
        "flat list of integers",
        "client 0",
        "list",
    ),
    of_map("ragged lists", {"0": [[0, 1], [2]]}, "flat list of integers", "client 0", "list sample indices only"),
    of_map("fractions", {"0": [0.5, *ALL[1:]]}, "flat list of integers", "dtype float64", "list sample indices only"),
    of_map("NaN", '{"0": [NaN]}', "flat list of integers", "dtype float64", "list sample indices only"),
    of_map(
        "true and false",
        {"0": [False, True, *ALL[2:]]},
        "flat list of integers",
        "client 0 lists true or false",
        "list",
    ),
    of_map("text", {"0": ["0", "1"]}, "flat list of integers", "dtype <U1", "list sample indices only"),
    of_map("null", {"0": None}, "flat list of integers", "dtype object", "list sample indices only"),
    of_map("one number", {"0": 5}, "flat list of integers", "shape ()", "list sample indices only"),
    of_map("negative", {"0": [-1, *ALL[1:]]}, "must lie in 0..1437", "got -1 for client 0", "another data set"),
    of_map("too large", {"0": ALL, "1": [1438]}, "must lie in 0..1437", "got 1438 for client 1", "another data set"),
    of_map("beyond 63 bits", {"0": [2**63]}, "must lie in 0..1437", f"got {2**63}", "another data set"),
    of_map("beyond 64 bits", {"0": [2**70]}, "flat list of integers", "dtype object", "list sample indices only"),
    of_map("10,000 digits", '{"0": [' + "9" * 10_000 + "]}", "is not valid JSON", "digits", SHAPE),
    of_map("twice at one client", {"0": [0, *ALL]}, "one client only", "sample 0 appears 2 times", "remove the copies"),
    of_map(
        "twice at two clients", {"0": ALL, "1": [7]}, "one client only", "sample 7 appears 2 times", "remove the copies"
    ),
    of_map("missed", {"0": ALL[:-1]}, "must belong to a client", "sample 1437 belongs to none", "add them"),
    of_map("an empty client", {"0": ALL, "1": []}, "at least 1 samples", "client 1 has 0", "remove the client"),
    of_map("a client twice", '{"0": [0], "0": [1]}', "listed once", "'0' appears more than once", "join its lists"),
    of_map(
        "a client's name of 9,999 digits",
        {"9" * 9999: [0], "1": [0]},
        "one client only",
        "sample 0 appears 2",
        "remove",
    ),
    of_partition(
        "map and clients",
        f"{MAP} --clients 3",
        "number of clients comes from",
        "1, not 3",
        "leave clients out",
        m_json=json.dumps({"0": ALL}),
    ),
]
