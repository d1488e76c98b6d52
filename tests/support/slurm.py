"""A Slurm cluster on this machine: a controller, two nodes with four CPUs each, and a key of its
own, all in one folder and on the loopback interface. It needs root, as a real one does."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from driving import wait_until

NODES = ("n1", "n2")
RESOURCES = {"timeout_min": 10, "signal_delay_s": 20}
"""What every test asks for."""
CONFIGURATION = """\
ClusterName=deepband
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
Prolog={folder}/prolog
EnforcePartLimits=ALL
KillWait=1
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 Gres=gpu:2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4 Gres=gpu:2
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=60 State=UP
PartitionName=closed Nodes=n1 State=DOWN
"""


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[None]:
    """Starts a cluster, to which commands of this process and its children then connect."""
    configuration = _configure(folder)
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(configuration)
    with ExitStack() as stack:
        stack.callback(_restore, before)
        stack.enter_context(_munged(folder))
        stack.enter_context(_daemon(folder, "slurmctld", "-D"))
        for node in NODES:
            stack.enter_context(_daemon(folder, "slurmd", "-D", "-N", node))
        wait_until(lambda: run("sinfo", "-h", "-N", "-p", "main").count("idle") == len(NODES))
        stack.callback(_end_jobs)
        yield


def run(*command: str) -> str:
    """What a command of Slurm prints; nothing if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout


def states() -> list[str]:
    """The states of all jobs that have not ended."""
    return run("squeue", "--array", "--noheader", "-o%T").split()


def ids() -> list[str]:
    """The ids of all jobs that have not ended."""
    return run("squeue", "--array", "--noheader", "-o%i").split()


@contextmanager
def broken(node: str) -> Iterator[None]:
    """Lets a node start no job: its prolog fails, whereupon Slurm drains it and holds the job."""
    mark = Path(os.environ["SLURM_CONF"]).with_name(f"{node}.broken")
    mark.touch()
    try:
        yield
    finally:
        mark.unlink()
        run("scontrol", "update", f"nodename={node}", "state=resume")


@contextmanager
def hastened() -> Iterator[None]:
    """Lets jobs that are requeued start at once, where Slurm would wait for two minutes."""
    done = threading.Event()
    thread = threading.Thread(target=_hasten, args=(done,))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _hasten(done: threading.Event) -> None:
    """Nodes need a few seconds to end the steps of a job. If it starts again before, the node
    refuses it and Slurm holds it, the controller (22.05.8) crashes, or the exit code of the old
    start ends the new one. All were seen when this function waited for less than the end of all
    steps; the two minutes of Slurm are there to prevent it."""
    while not done.wait(0.5):
        waiting = run("squeue", "--array", "--noheader", "--states=pending", "-o%A %r").splitlines()
        jobs = [line.split()[0] for line in waiting if line.endswith("BeginTime")]
        for job in [each for each in jobs if not _steps(each)]:
            run("scontrol", "update", f"jobid={job}", "starttime=now")


def _steps(job: str) -> list[Path]:
    """The steps of a job that nodes are running or ending: their sockets or, later, their
    processes."""
    folder = Path(os.environ["SLURM_CONF"]).parent
    sockets = [path for node in NODES for path in (folder / node).glob(f"{node}_{job}.*")]
    return sockets or [each for each in Path("/proc").glob("[0-9]*") if _runs_step(each, job)]


def _runs_step(process: Path, job: str) -> bool:
    with suppress(OSError):
        return (process / "cmdline").read_bytes().startswith(f"slurmstepd: [{job}.".encode())
    return False


def _configure(folder: Path) -> Path:
    host = socket.gethostname().partition(".")[0]
    (folder / "state").mkdir()
    for number in range(2):
        os.mknod(folder / f"gpu{number}", stat.S_IFCHR | 0o600, os.makedev(1, 3))  # as /dev/null
    prolog = folder / "prolog"
    prolog.write_text(f"#!/bin/sh\n[ ! -e {folder}/$SLURMD_NODENAME.broken ]\n")
    prolog.chmod(0o755)
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-1]\n")
    path = folder / "slurm.conf"
    path.write_text(CONFIGURATION.format(host=host, folder=folder, ports=_free_ports(3)))
    return path


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextmanager
def _munged(folder: Path) -> Iterator[None]:
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    files = {name: folder / f"munge.{name}" for name in ("socket", "pid", "log", "seed")}
    options = [f"--{name}{'' if name == 'socket' else '-file'}={files[name]}" for name in files]
    process = subprocess.Popen(
        ["munged", "--foreground", "--force", f"--key-file={key}", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(files["socket"].exists)
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _daemon(folder: Path, *command: str) -> Iterator[None]:
    with (folder / f"{'-'.join(command)}.out").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def _end_jobs() -> None:
    """Cancel all jobs, and wait until their processes have ended."""
    run("scancel", "--user=root")
    end = time.monotonic() + 30
    while states() and time.monotonic() < end:
        time.sleep(0.1)


def _restore(before: str | None) -> None:
    os.environ.pop("SLURM_CONF", None)
    if before is not None:
        os.environ["SLURM_CONF"] = before
