"""Training items: jobs are run once and kept, tables count what they say, claims can fail."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import undrift as ud
from undrift.engine.history import totals
from undrift_papers import jobs
from undrift_papers.archive import from_json
from undrift_papers.data import Data
from undrift_papers.item import reduced
from undrift_papers.jobs import Job, Outcome
from undrift_papers.learning_costs import costs
from undrift_papers.learning_published import job_of, rows_of
from undrift_papers.learning_table import Cell, cell_jobs, cells, table_of
from undrift_papers.registry import all_items
from undrift_papers.reproduce import reproduce
from undrift_papers.ssl_settings import TABLE_3
from undrift_papers.store import Store

ROOT = Path(__file__).parents[2]
SMALL = Job("digits", "softmax_regression", 10, "exdir:2,10", "fedavg", 0.3, 5, 12, seed=3, cohort=5, record_every=4)


def test_a_job_is_run_once_and_read_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = jobs.finish(SMALL, tmp_path / "jobs")
    assert first.rounds.tolist() == [0, 4, 8, 12]
    assert first.accuracy[-1] > first.accuracy[0]
    monkeypatch.setattr(jobs, "_run", lambda *_: pytest.fail("it was run a second time"))
    again = jobs.finish(SMALL, tmp_path / "jobs")
    assert np.array_equal(first.accuracy, again.accuracy)
    assert again.summary["job"] == dataclasses.asdict(SMALL)


def test_a_job_that_was_stopped_continues_and_leaves_its_folder(tmp_path: Path) -> None:
    def stop(history: ud.History) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "jobs"
    with pytest.raises(ud.Interrupted):
        jobs.finish(SMALL, folder, stop)
    assert jobs.outcome(SMALL, folder) is None
    assert (folder / SMALL.name).is_dir()
    assert jobs.finish(SMALL, folder).rounds.tolist() == [0, 4, 8, 12]
    assert not (folder / SMALL.name).exists()
    assert {path.name for path in tmp_path.iterdir()} == {"jobs", "jobs.zip"}


def test_a_job_that_was_evaluated_more_often_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fine = dataclasses.replace(SMALL, record_every=2)
    known = jobs.finish(fine, tmp_path / "jobs")
    monkeypatch.setattr(jobs, "_run", lambda *_: pytest.fail("it was run a second time"))
    coarse = jobs.finish(dataclasses.replace(fine, record_every=4), tmp_path / "jobs")
    kept = known.rounds % 4 == 0
    assert coarse.rounds.tolist() == [0, 4, 8, 12]
    assert np.array_equal(coarse.accuracy, known.accuracy[kept])
    assert (
        jobs.outcome(dataclasses.replace(fine, record_every=3), tmp_path / "jobs") is None
    )  # 3, 9, … were not evaluated


def test_a_job_that_was_run_for_longer_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("fedavg", "sequential_fl"):
        short = dataclasses.replace(SMALL, method=method)
        jobs.finish(dataclasses.replace(short, rounds=20), tmp_path / "jobs")
        served = jobs.outcome(short, tmp_path / "jobs")
        assert served is not None
        assert served.rounds.tolist() == [0, 4, 8, 12]
        own = jobs.finish(short, tmp_path / "own")
        assert np.allclose(served.accuracy, own.accuracy, atol=0.01), "its first rounds are those of the shorter one"
    monkeypatch.setattr(jobs, "_run", lambda *_: pytest.fail("it was run a second time"))
    jobs.finish(SMALL, tmp_path / "jobs")
    assert jobs.outcome(dataclasses.replace(SMALL, rounds=10), tmp_path / "jobs") is None, "round 10 was not evaluated"
    assert jobs.outcome(dataclasses.replace(SMALL, rounds=24), tmp_path / "jobs") is None
    assert jobs.outcome(dataclasses.replace(SMALL, seed=4), tmp_path / "jobs") is None


def test_every_part_of_a_setting_makes_another_job() -> None:
    changes = {"data": "mnist", "eta": 0.1, "steps": 6, "rounds": 13, "seed": 4, "clip": 10.0, "method": "sequential_fl",
               "partition": "iid", "batch": 10, "weight_decay": 0.0, "cohort": 4, "record_every": 2,
               "pixels": "-1 to 1", "weights": "by size", "images": jobs.MOVED, "turns": jobs.ANEW,
               "clipping": jobs.HALVES, "last_batch": jobs.SHORT, "model": "vgg11:narrower=8"}  # fmt: skip
    names = {SMALL.name, *(dataclasses.replace(SMALL, **{key: value}).name for key, value in changes.items())}
    assert len(names) == len(changes) + 1


def test_two_workers_do_not_run_the_same_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / f".{SMALL.name}.lock"
    lock.touch()  # its owner died: the system has freed it

    def work(job: Job, folder: Path) -> Outcome:
        assert jobs.work_through([job], folder, print) == 0  # another worker looks at it meanwhile
        return outcome([0.5] * 3)

    monkeypatch.setattr(jobs, "_finish", work)
    assert jobs.work_through([SMALL], tmp_path, lambda text: None) == 1
    assert not lock.exists()


def outcome(accuracy: list[float], seed: int = 0) -> Outcome:
    rounds = 2 * np.arange(len(accuracy))
    return Outcome(dataclasses.replace(SMALL, seed=seed), rounds, {"accuracy": np.array(accuracy)}, {})


def test_a_table_averages_the_last_twenty_rounds_and_counts_rounds_on_the_mean_curve() -> None:
    slow = outcome([0.0] * 10 + [0.2, 0.4] + [0.5] * 9)
    fast = outcome([0.0] * 10 + [0.4, 0.6] + [0.7] * 9, seed=1)
    table = table_of({Cell("mnist", 1, 10): {"FedAvg": [slow, fast]}})
    # Evaluated every second round up to 40: the last twenty are 22, 24, … 40.
    assert table["accuracy"] == [pytest.approx(100 * np.mean([0.4, *[0.5] * 9, 0.6, *[0.7] * 9]))]
    assert table["rounds_to"] == [20]  # the mean reaches 0.3 with 0.2 and 0.4
    assert table_of({Cell("mnist", 2, 10): {"SSL": [slow]}})["rounds_to"] == [-1]  # never 75 %


def test_the_paper_scale_of_table_3_is_what_the_paper_ran() -> None:
    main, values = (
        {setting.key: setting.value for setting in all_items()[name].settings("paper")}
        for name in ("ssl/table3", "ssl/table3-variants")
    )
    assert sum(1 for cell in cells(main) for _ in cell_jobs(main, cell)) == 3 * 8 * 2
    wanted = [job for cell in cells(values) for _, job in cell_jobs(values, cell)]
    cells_and_methods, augmented, drawn_anew, signed, by_sizes = 8 * 2, 2 * 2, 2, 2, 1
    # Three seeds, one with the published maps, with pixels from 0 to 1 one (MNIST) or three; and the smaller variants.
    assert len(wanted) == (3 + 1 + (1 + 3) / 2) * cells_and_methods + augmented + drawn_anew + signed + by_sizes
    assert {job.data for job in wanted if job.images == jobs.MOVED} == {"fmnist"}
    assert len({job.name for job in wanted}) == len(wanted)
    by_size = [job for job in wanted if job.weights == "by size"]
    assert {(job.steps, job.method, job.partition[:9]) for job in by_size} == {(10, "fedavg", "map:exdir")}
    assert {job.rounds for job in wanted if job.partition == "exdir:1,10"} == {1000}
    assert {job.clip for job in wanted if "exdir:2" in job.partition} == {10.0}
    fedavg = [job.eta for job in wanted if job.data == "mnist" and job.method == "fedavg" and job.steps == 20]
    assert set(fedavg) == {0.0005, 0.05}


def fabricated(winner: str) -> Data:
    """Table 3 as printed, or with the winners of all cells exchanged."""
    rows = []
    for (data, classes, steps), (fedavg, ssl) in TABLE_3.items():
        if data == "cifar10":
            continue
        pair = (fedavg, ssl) if winner == "as printed" else (ssl, fedavg)
        for method, (mean, spread, rounds) in zip(("FedAvg", "SSL"), pair, strict=True):
            assert rounds is not None
            target = 0.3 if classes == 1 else 0.75
            plain = 50.0 if data == "mnist" else mean
            for variant, accuracy, later in (
                ("drawn from the seed", mean, 0),
                ("pixels from -1 to 1", mean, 100),
                ("pixels from 0 to 1", plain, 200),
            ):
                rows.append((data, variant, classes, steps, method, 3, 400, accuracy, spread, target, rounds + later))
    names = (
        "data", "variant", "classes", "K", "method", "seeds", "rounds", "accuracy", "deviation", "target", "rounds_to",
    )  # fmt: skip
    return Data({"cells": dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))})


def test_the_claims_of_table_3_hold_for_the_printed_figures_and_fail_for_the_opposite() -> None:
    items = [all_items()[name] for name in ("ssl/table3", "ssl/table3-variants")]
    table, variants = ([claim for claim in item.claims if "paper" in claim.scales] for item in items)
    assert all(claim.verdict(fabricated("as printed"))["holds"] for claim in (*table, *variants))
    # cells × (order, two methods); plain pixels; nearer; span where C = 1; pace and spread where K = 10 too
    assert (len(table), len(variants)) == (8 * 3, 4 * 2 + 1 + 4 + 2 + 2)
    opposite = [claim.verdict(fabricated("exchanged")) for claim in table]
    orders = [verdict for verdict in opposite if "ends higher" in verdict["sentence"]]
    assert len(orders) == 7, "the paper's own difference is within its spread in one cell"
    assert not any(verdict["holds"] for verdict in orders)
    assert all(verdict["explanation"] for verdict in orders)


def test_an_order_within_the_spread_is_not_claimed() -> None:
    (claim,) = (
        c for c in all_items()["ssl/table3"].claims if c.sentence.startswith("MNIST, ExDir(1, 10), K = 10: at the")
    )
    data = fabricated("as printed")
    assert claim.verdict(data)["holds"]
    data["cells"]["deviation"][:] = 40.0
    verdict = claim.verdict(data)
    assert not verdict["holds"]
    assert "spread" in verdict["explanation"]


def test_the_published_details_change_what_they_say_and_nothing_else() -> None:
    values = {setting.key: setting.value for setting in all_items()["ssl/published-code"].settings("paper")}
    for row in rows_of(values):
        own, their = (dataclasses.asdict(job_of(values, row, code)) for code in ("ours", "as published code"))
        changed = {key: value for key, value in their.items() if value != own[key]}
        assert changed.pop("partition") == f"exdir:{row.classes},10,min_size=10,min_clients={10 * row.classes},cap=true"
        assert changed.pop("last_batch") == "short"
        clipped = {"clipping": jobs.HALVES} if row.classes == 2 else {}
        assert changed == ({"weights": "by size"} if row.method == "FedAvg" else {"turns": jobs.ANEW, **clipped})


def test_the_claims_on_the_published_details_can_fail() -> None:
    item = all_items()["ssl/published-code"]
    values = {setting.key: setting.value for setting in item.settings("paper")}
    claims = [claim for claim in item.claims if "paper" in claim.scales]

    def verdicts(moved: float) -> list[bool]:
        table: dict[str, list[object]] = {}
        for row in rows_of(values):
            for code, accuracy in (
                ("ours", 90.0),
                ("as published code", 90.0 + (moved if row.method == "FedAvg" else -moved)),
            ):
                better = 1.0 if row.method == "SSL" else 0.0
                cells = {**dataclasses.asdict(row), "code": code, "accuracy": accuracy + better, "deviation": 1.0}
                for key, cell in cells.items():
                    table.setdefault(key, []).append(cell)
        return [claim.verdict(Data({"ends": table}))["holds"] for claim in claims]

    assert all(verdicts(0.2))
    assert not any(verdicts(1.5))


@pytest.mark.parametrize(
    "name", ["ssl/fig8", "ssl/table7", "ssl/fig6", "fedavg/fig4", "ssl/fig2", "ssl/published-code"]
)
def test_every_training_item_has_every_setting_it_asks_for(name: str) -> None:
    item = all_items()[name]
    for scale in ("quick", "short", "paper"):
        assert len({setting.key for setting in item.settings(scale)}) == len(item.settings(scale))
        assert item.key(scale)


def test_a_reduced_training_item_from_jobs_to_the_page(tmp_path: Path) -> None:
    item = all_items()["ssl/fig8"]
    smaller = {
        "model": "softmax_regression",
        "clients": 10,
        "clients per round": 5,
        "rounds": {"1": 40, "2": 20},
        "classes per client": [1],
    }
    changed = tuple(s for s in item.reduced if s.key not in smaller) + tuple(reduced(k, v) for k, v in smaller.items())
    small = dataclasses.replace(item, reduced=changed)
    store = Store(tmp_path)
    done = reproduce(small, store, "quick")
    assert done.fresh
    assert len(done.claims) == 1  # what the paper printed cannot be decided on digits
    for name in ("figure.png", "figure.svg", "page.html"):
        assert (done.folder / name).stat().st_size > 0, name
    kept = store.archive(small, "quick").read()
    assert {"claims.json", "setting.json", "data/curves.csv", "data/cells.csv"} <= set(kept)
    accuracy = store.load(small, "quick")["cells"]["accuracy"]
    assert np.all((accuracy > 10) & (accuracy <= 100))
    assert len({name.partition("/")[0] for name in jobs.archive(store.jobs).read()}) == 2
    assert not list(store.jobs.iterdir()), "what was half done is removed"
    assert not reproduce(small, store, "quick").fresh


def test_committed_jobs_bear_the_names_of_their_settings() -> None:
    kept = jobs.archive(Store(ROOT / "reproduction").jobs).read()
    names = {file.partition("/")[0] for file in kept}
    assert names
    for name in names:
        job = Job(**from_json(kept[f"{name}/summary.json"])["job"])
        assert job.name == name, "it would be run a second time"


def test_the_bytes_of_ssl_are_those_of_a_run_on_the_cut_model() -> None:
    job = dataclasses.replace(SMALL, model="mlp", method="sequential_fl")
    dataset = ud.data.load(job.data)
    parts = ud.data.iid(dataset.train.y, job.clients, seed=0)
    problem = ud.problems.network(ud.models.mlp(input=(8, 8, 1)), dataset.train, parts, batch=job.batch, cut=2)
    ran = ud.run(ud.ssl(eta=0.1, mode="peer"), problem, rounds=2, steps=job.steps, participation=ud.plan.permuted(5))
    counted = costs(Outcome(job, np.arange(3), {}, {}), cut=2)
    for axis in ("bytes", "gradients"):
        assert np.array_equal(counted[axis], totals(ran.history)[axis])


def test_items_cut_the_models_where_the_paper_does() -> None:
    for name, model in (("ssl/fig8", ud.models.lenet5()), ("ssl/fig10", ud.models.vgg11())):
        (cut,) = (setting.value for setting in all_items()[name].settings("paper") if setting.key == "cut")
        assert cut == model.paper_cut


def test_table_8_is_drawn_beside_its_own_figures() -> None:
    names = ("data", "variant", "classes", "K", "method", "accuracy", "deviation")
    rows = [("cifar10", "drawn from the seed", 1, 5, method, 10.0, 1.0) for method in ("FedAvg", "SSL")]
    data = Data({"cells": dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))})
    axis = all_items()["ssl/table8"].draw(data).axes[0]
    marks = sorted(float(line.get_xdata()[0]) for line in axis.lines if line.get_marker() == "D")
    assert marks == [69.28, 84.79]
