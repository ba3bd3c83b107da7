"""A sweep as jobs of a real SLURM: one node on loopback."""
import contextlib
import sys

import loopback_slurm
import pandas
import pytest
import vitro
from conftest import FAKES, ROOT

SWEEP = """
experiment: swept
machine: sim
workload: {output_tokens: 3}
sweep: {memory.budget: [4 MiB, 6 MiB], seed: [1, 2]}
"""


@pytest.mark.skipif(bool(loopback_slurm.missing()), reason=f"not installed: {', '.join(loopback_slurm.missing())}")
def test_a_sweep_on_slurm_gives_the_same_table(fake, tmp_path, monkeypatch):
    here = vitro.sweep(SWEEP)
    (tmp_path / "slurm.yaml").write_text(f"""
jobs: 1
cores: 1
memory: 500 MB
walltime: "00:10:00"
interface: lo
python: {sys.executable}
log_directory: {tmp_path}/logs
job_script_prologue: ["export PYTHONPATH={ROOT}/python:{FAKES}", "export VITRO_NATIVE_MODULE=fake_vitro"]
patience: 60
""")
    with contextlib.ExitStack() as daemons:
        try:
            env = daemons.enter_context(loopback_slurm.slurm(tmp_path / "slurm", cores=2))
        except loopback_slurm.NotUp as error:
            pytest.skip(str(error))
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, env[name])
        there = vitro.sweep(SWEEP, out=tmp_path / "o", on=f"slurm:{tmp_path}/slurm.yaml")
    pandas.testing.assert_frame_equal(there.drop(columns=["wall_s", "identity", "repeat"]), here.drop(columns="wall_s"))
    log = "".join(path.read_text() for path in (tmp_path / "slurm").glob("slurmctld.log"))
    assert "Allocate JobId=1" in log and len(list((tmp_path / "logs").iterdir())) == 2
