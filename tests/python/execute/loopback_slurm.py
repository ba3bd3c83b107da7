"""SLURM of one node on loopback, from Debian's slurmctld, slurmd and munge, as the user who runs the tests, without control groups."""
import contextlib
import getpass
import os
import secrets
import shutil
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")

_CONF = """
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory=2000 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class NotUp(RuntimeError):
    """The daemons do not come up on this machine; the message has their logs."""


def missing():
    """The programs that are not installed."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


@contextlib.contextmanager
def slurm(folder, cores):
    """-> the environment for sbatch and its like. Raises NotUp."""
    folder.mkdir()
    for name in ("state", "spool"):
        (folder / name).mkdir()
    folder.chmod(0o755)
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    (folder / "slurm.conf").write_text(_CONF.format(host=host, user=getpass.getuser(), folder=folder, ports=_ports(2), cores=cores))
    env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
    munge = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key",
             f"--pid-file={folder}/munge.pid", f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munge.log"]
    running = []
    try:
        for command in (munge, ["slurmctld", "-D", "-c"], ["slurmd", "-D", "-N", host]):
            with open(folder / f"{command[0]}.out", "w") as out:
                running.append(subprocess.Popen(command, env=env, stdout=out, stderr=out))
            time.sleep(0.5)
        for _ in range(100):
            state = subprocess.run(["sinfo", "-h", "-o", "%T"], env=env, capture_output=True, text=True).stdout.strip()
            if state == "idle":
                break
            time.sleep(0.2)
        else:
            raise NotUp("\n".join(f"== {path.name}\n{path.read_text()[-1500:]}" for path in sorted(folder.glob("*.[lo][ou][gt]"))))
        yield env
    finally:
        subprocess.run(["scancel", "-u", getpass.getuser()], env=env, capture_output=True)
        for process in reversed(running):
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


def _ports(count):
    found = [socket.socket() for _ in range(count)]
    for one in found:
        one.bind(("127.0.0.1", 0))
    numbers = [one.getsockname()[1] for one in found]
    for one in found:
        one.close()
    return numbers
