"""Sweeps: the grid, its order, what is kept and what is run again."""
import pandas
import pytest
import vitro
from conftest import ROOT
from vitro.study import points, store

SWEEP = """
experiment: swept
machine: sim
engine: {policy: mmap}
workload: {output_tokens: 3}
fake: {log: runs.log}
sweep: {memory.budget: [4 MiB, 6 MiB], seed: [1, 2]}
"""


REAL = f"""
experiment: swept
machine: host
model: {{gguf: {ROOT}/configs/models/embedded/stories-reglu-3m.q4_0.gguf}}
workload: {{prompt: hi, output_tokens: 1}}
sweep:
  - engine.policy: dense
    workload.prompt: ["Once: upon", "5"]
  - engine.policy: mmap
"""


def runs(folder):
    return len((folder / "runs.log").read_text().split())


def test_a_map_is_a_grid_and_the_last_key_runs_fastest():
    assert points.points({"a": [1, 2], "b": ["x", "y"]}) == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]


def test_a_list_is_a_union_of_grids():
    assert points.points([{"a": 1}, {"a": 2, "b": [3, 4]}]) == [{"a": 1}, {"a": 2, "b": 3}, {"a": 2, "b": 4}]


def test_labels_name_points_and_lists_within_them_tell_apart():
    assert points.labelled({"a": [1, 2]}) == [(None, {"a": 1}), (None, {"a": 2})]
    assert points.labelled([{"label": "one", "a.b": 1, "c": [[3, 4], [5]]}, {"a.b": 2}]) == [
        ("one, c [3, 4]", {"a.b": 1, "c": [3, 4]}), ("one, c [5]", {"a.b": 1, "c": [5]}), ("b 2", {"a.b": 2})]
    assert points.points([{"label": "one", "a": 1}]) == [{"a": 1}]
    assert [label for label, _ in points.labelled({"label": "x", "a": [True, "off", None]})] == ["x, a true", "x, a off", "x, a null"]


def test_labels_stand_for_the_keys_in_tables(fake, tmp_path):
    swept = "sweep: [{label: the small one, memory.budget: 4 MiB}, {label: others, memory.budget: 6 MiB, seed: [1, 2]}]"
    written = fake.write(SWEEP.replace("sweep: {memory.budget: [4 MiB, 6 MiB], seed: [1, 2]}", swept))
    answer = fake("sweep", written, "--out", "o")
    assert answer.code == 0
    assert "others, seed 2" in answer.out and "memory.budget" not in answer.out
    frame = pandas.read_csv(tmp_path / "o/results.csv")
    assert list(frame["label"]) == ["the small one", "others, seed 1", "others, seed 2"]
    assert list(frame["memory.budget"]) == ["4 MiB", "6 MiB", "6 MiB"]
    assert "the small one" in (tmp_path / "o/report.html").read_text()


@pytest.mark.parametrize("wrong", [{}, [], [{}], "a", {"a": []}, [1], {"label": "nothing else"}, {"label": ["a", "b"], "c": 1}])
def test_a_sweep_that_is_none_is_refused(wrong):
    with pytest.raises(vitro.ConfigError):
        points.points(wrong)


def test_rows_are_in_grid_order_whatever_finishes_first(fake, tmp_path):
    slow_first = SWEEP + "expect: {}\n"
    frame = vitro.sweep(slow_first.replace("[1, 2]", "[2, 1]"), workers=4)
    assert list(zip(frame["memory.budget"], frame["seed"])) == [("4 MiB", 2), ("4 MiB", 1), ("6 MiB", 2), ("6 MiB", 1)]
    assert (frame["status"] == "ok").all()


def test_workers_do_not_change_the_table(fake):
    one, four = (vitro.sweep(SWEEP, workers=workers).drop(columns="wall_s") for workers in (1, 4))
    pandas.testing.assert_frame_equal(one, four)


def test_files(fake, tmp_path):
    answer = fake("sweep", fake.write(SWEEP), "--out", "o", "--json")
    assert answer.code == 0
    assert len(answer.json["rows"]) == 4
    parquet = pandas.read_parquet(tmp_path / "o/results.parquet")
    csv = pandas.read_csv(tmp_path / "o/results.csv")
    assert list(parquet.columns) == list(csv.columns)
    assert list(parquet["decode_tokens_per_s"]) == list(csv["decode_tokens_per_s"])
    assert "</html>" in (tmp_path / "o/report.html").read_text()


def test_lists_and_maps_as_values_are_texts_in_the_table(fake, tmp_path):
    swept = "sweep: [{engine.units: [[cpu0], [cpu0, cpu1]]}, {engine: {policy: mmap}}, {seed: 2}]"
    frame = vitro.sweep(SWEEP.replace("sweep: {memory.budget: [4 MiB, 6 MiB], seed: [1, 2]}", swept), out=tmp_path / "o")
    assert list(frame["engine.units"].fillna("")) == ["[cpu0]", "[cpu0, cpu1]", "", ""]
    assert list(frame["engine"].fillna("")) == ["", "", "{policy: mmap}", ""]
    assert list(pandas.read_parquet(tmp_path / "o/results.parquet")["engine.units"].fillna("")) == list(frame["engine.units"].fillna(""))


def test_resume_runs_only_what_is_missing(fake, tmp_path):
    path = fake.write(SWEEP)
    first = fake("sweep", path, "--out", "o", "--json").json
    for part in sorted((tmp_path / "o/store/parts").iterdir())[2:]:
        part.unlink()
    again = fake("sweep", path, "--out", "o", "--json", "--resume").json
    assert runs(tmp_path) == 4 + 2
    drop = [{key: value for key, value in row.items() if key != "wall_s"} for rows in (first, again) for row in rows["rows"]]
    assert drop[:4] == drop[4:]


@pytest.mark.all
def test_resume_runs_again_what_was_changed(fake, tmp_path):
    fake("sweep", fake.write(SWEEP), "--out", "o")
    fake("sweep", fake.write(SWEEP.replace("output_tokens: 3", "output_tokens: 4")), "--out", "o", "--resume")
    assert runs(tmp_path) == 8


def test_a_failed_point_is_a_row_and_the_rest_goes_on(fake, tmp_path):
    text = "experiment: x\nsweep: {fake.fail: [boom], seed: [1]}\n"
    union = "experiment: x\nsweep: [{seed: 1}, {seed: 2, fake.crash: true}, {seed: 3}]\n"
    assert fake("sweep", fake.write(text), "--out", "a").code == 1
    answer = fake("sweep", fake.write(union), "--out", "b", "--json")
    assert answer.code == 1
    assert [row["status"] for row in answer.json["rows"]] == ["ok", "failed", "ok"]
    assert "SIGSEGV" in answer.json["rows"][1]["error"] and "1 of 3 points failed" in answer.err


def test_a_point_that_can_not_run_is_a_row_and_all_of_them_the_users_mistake(native):
    small = REAL.replace("    workload.prompt: [\"Once: upon\", \"5\"]\n", "    memory.budget: [1 KiB, 1 GiB]\n")
    rows = native("sweep", native.write(small), "--out", "o", "--json")
    assert rows.code == 1 and [row["status"] for row in rows.json["rows"]] == ["failed", "ok", "ok"]
    assert "memory.budget" in rows.json["rows"][0]["error"] and "1 of 3 points failed" in rows.err
    none = native("sweep", native.write(small), "--out", "p", "--set", "sweep={memory.budget: [1 KiB, 2 KiB]}")
    said = [line for line in none.err.splitlines() if ": 1/2" not in line]  # on a slow machine, progress after five seconds
    assert none.code == 2 and len(said) == 1 and said[0].startswith("vitro: memory.budget")


@pytest.mark.all
def test_failed_points_are_not_kept(fake, tmp_path):
    union = "experiment: x\nsweep: [{seed: 1}, {fake.fail: boom}]\n"
    fake("sweep", fake.write(union), "--out", "o")
    assert len(store.rows(tmp_path / "o")) == 1
    assert fake("sweep", fake.write(union), "--out", "o", "--resume").code == 1


def test_a_typo_in_the_last_point_shows_before_anything_runs(fake, tmp_path):
    answer = fake("sweep", fake.write(SWEEP + "").__fspath__(), "--out", "o", "--set", "sweep=[{seed: 1}, {typo: 1}]")
    assert answer.code == 2
    assert "typo" in answer.err
    assert not (tmp_path / "runs.log").exists()


@pytest.mark.parametrize("lines, said", [
    ("sweep:\n  - {seed: 1}\n  - 3", "exp.yaml:4: sweep: expected a map"),
    ("sweep:\n  seed: [1]\n  label: [a]", "exp.yaml:4: sweep.label"),
    ("sweep:\n  seed: [1]\n  fake.log: []", "exp.yaml:4: sweep.fake.log: the list is empty"),
    ("sweep: {seed: [1, 2]}\nexpect:\n  a: {metric: ttft_ms, min: 0}\n  b:\n    metric: ttft_ms\n    most: 3",
     "exp.yaml:7: expect.b.most: unknown key"),
    ("sweep: {seed: [1, 2]}\nexpect:\n  a:\n    metric: speed\n    min: 0", "exp.yaml:5: expect.a.metric: 'speed' is not a metric"),
    ("sweep: {seed: [1, 2]}\nmetrics:\n  - ttft_ms\n  - speed", "exp.yaml:5: metrics: 'speed' is not a metric"),
])
def test_what_is_wrong_in_a_sweep_is_named_by_file_and_line(fake, lines, said):
    answer = fake("sweep", fake.write(f"experiment: x\n{lines}\n"), "--out", "o")
    assert answer.code == 2 and said in answer.err and answer.err.count("\n") == 1, answer.err


@pytest.mark.parametrize("line, said", [
    ("    engine.polcy: [a]", "exp.yaml:10: engine.polcy: unknown key"),
    ("    memory.budget:\n      - 8 MiB\n      - 8", 'exp.yaml:12: memory.budget: "8" has no unit'),
    ("    device: [nowhere.yaml]", 'exp.yaml:10: device: "nowhere.yaml" is not a file (looked for {here}/nowhere.yaml'),
    ("    engine.record: [folder]", "exp.yaml:10: engine.record: {here}/folder is a folder"),
])
def test_what_is_wrong_at_a_point_is_named_by_its_line_before_anything_runs(native, tmp_path, line, said):
    (tmp_path / "folder").mkdir()
    (tmp_path / "elsewhere").mkdir()
    answer = native("sweep", native.write(f"{REAL}{line}\n"), "--out", "elsewhere")
    assert answer.code == 2 and said.format(here=tmp_path) in answer.err, answer.err
    assert not list((tmp_path / "elsewhere").iterdir())


def test_points_do_not_share_a_recording(native):
    answer = native("sweep", native.write(f"{REAL}    engine.record: one.vtrc\n    seed: [1, 2]\n"), "--out", "o")
    assert answer.code == 2 and "exp.yaml:10: engine.record: " in answer.err and "points 2 and 3" in answer.err


def test_machines_may_be_swept(fake, tmp_path):
    swept = fake.write(SWEEP.replace("memory.budget: [4 MiB, 6 MiB], seed: [1, 2]", "machine: [sim, host]"))
    rows = [line.split() for line in fake("sweep", swept, "--out", "o").out.splitlines()]
    assert rows[1][:2] == ["point", "machine"] and [row[1] for row in rows[2:4]] == ["sim", "host"]


def test_values_of_a_sweep_are_what_the_file_says(native, tmp_path):
    """Texts are texts, and paths start at the file."""
    (tmp_path / "sub").mkdir()
    path = native.write(REAL + "    engine.record: one.vtrc\n", "sub/exp.yaml")
    rows = native("sweep", path, "--out", "o", "--json").json["rows"]
    assert [row["status"] for row in rows] == ["ok"] * 3 and [row["workload.prompt"] for row in rows] == ["Once: upon", "5", None]
    assert (tmp_path / "sub/one.vtrc").exists()


@pytest.mark.all
def test_dask(fake):
    from distributed import LocalCluster
    with LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        frame = vitro.sweep(SWEEP, dask=cluster.scheduler_address)
    pandas.testing.assert_frame_equal(frame.drop(columns="wall_s"), vitro.sweep(SWEEP).drop(columns="wall_s"))


@pytest.mark.all
def test_absent_dask_scheduler_is_the_users_mistake(fake):
    with pytest.raises(vitro.ConfigError, match="no scheduler"):
        vitro.sweep(SWEEP, dask="tcp://127.0.0.1:1")
