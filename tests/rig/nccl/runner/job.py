"""A job of NCCL ranks: starts their processes, waits for them under a deadline, and reads what they and NCCL said."""
import ctypes
import glob
import json
import os
import re
import secrets
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field


class CaseFailed(Exception):
    """What the case checks is not so."""


class CaseSkipped(Exception):
    """The case cannot be run here, and why."""


@dataclass
class Network:
    """The network that NCCL is to use."""
    plugin: str  # a path; empty for one of NCCL's own
    name: str = "Megascale"
    version: str = "v11"  # of the interface that NCCL 2.28 must have chosen

    @property
    def is_ours(self):
        return self.name == "Megascale"


@dataclass
class Setting:
    """How a job is run."""
    ranks: int = 2
    channels: int = 1
    algorithm: str = "ring"  # of all-reduce; the others only have ring here
    protocol: str = "Simple"
    threads: int = 1  # ranks in a process
    deadline: float = 150  # seconds; the jobs need a tenth of it
    environment: dict = field(default_factory=dict)  # None: not set
    namespaces: list = field(default_factory=list)  # rank r runs in the one at r modulo their number
    rank_environment: object = None  # a function of the rank


class Rig:
    """What a case is given: the rank's program, the network, and folders for its files."""

    def __init__(self, program, network, folder, faulty_plugin=""):
        self.program, self.network, self.folder, self.faulty_plugin = program, network, folder, faulty_plugin

    def new_folder(self):
        return tempfile.mkdtemp(dir=self.folder)

    def over_faulty_plugin(self):
        return Rig(self.program, Network(self.faulty_plugin, "Faulty", "v8"), self.folder)


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Job:
    """The processes of one job. Use as a context: whatever happens, none of them is left."""

    def __init__(self, rig, setting, steps):
        self.rig, self.setting = rig, setting
        self.folder = rig.new_folder()
        self.secret = secrets.token_hex(16)
        self.processes = {}  # first rank: process
        self.started = time.monotonic()
        for rank in range(0, setting.ranks, setting.threads):
            self.processes[rank] = self._start(rank, steps)

    def _environment(self, rank):
        s, network = self.setting, self.rig.network
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "FAKECUDA_", "FAULTY_"))}
        environment |= {
            "NCCL_CONF_FILE": "/dev/null", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,GRAPH",
            "NCCL_DEBUG_FILE": self.path(f"nccl.{rank}"),
            # Every rank a host of its own: all traffic takes the network.
            "NCCL_HOSTID": f"host{rank}", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo",
            "NCCL_RAS_ENABLE": "0", "NCCL_RUNTIME_CONNECT": "0",
            # What the stand-in for the GPU can play.
            "NCCL_ALGO": f"ring;allreduce:{s.algorithm}", "NCCL_PROTO": s.protocol, "NCCL_PAT_ENABLE": "0",
            "NCCL_GRAPH_REGISTER": "0", "FAKECUDA_DEVICES": str(s.threads),
            "NCCL_MIN_NCHANNELS": str(s.channels), "NCCL_MAX_NCHANNELS": str(s.channels),
            # The library must not be unloaded: this NCCL would then forget its name for the next communicator.
            "NCCL_NET_PLUGIN_REF_COUNT": "1", "NCCL_NET": network.name,
            "NCCL_NET_PLUGIN": network.plugin or "none",
            "MEGASCALE_RAILS": "127.0.0.1,127.0.0.2", "MEGASCALE_EVENTS": self.path("events.%p"),
            "MEGASCALE_SECRET": self.secret,
        } | self.setting.environment
        if s.channels > 4:
            environment.setdefault("NCCL_BUFFSIZE", "524288")
        if s.rank_environment:
            environment |= s.rank_environment(rank)
        return {name: value for name, value in environment.items() if value is not None}

    def _start(self, rank, steps):
        s = self.setting
        command = [self.rig.program, "--rank", str(rank), "--ranks", str(s.ranks), "--threads", str(s.threads), "--id",
                   self.path("id"), *steps]
        if s.namespaces:
            command = ["ip", "netns", "exec", s.namespaces[rank % len(s.namespaces)], *command]
        with open(self.path(f"out.{rank}"), "wb") as out:
            return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                    env=self._environment(rank), preexec_fn=_die_with_parent)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    def path(self, name):
        return os.path.join(self.folder, name)

    def output(self, rank):
        with open(self.path(f"out.{rank}"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def all_output(self):
        return "".join(self.output(rank) for rank in self.processes)

    def check_alive(self):
        """Fails when a process has ended before it was meant to, or the deadline is over."""
        for rank, process in self.processes.items():
            if process.poll() is not None:
                raise CaseFailed(f"rank {rank} ended early with status {process.returncode}: {self.last_words(rank)}")
        if time.monotonic() - self.started > self.setting.deadline:
            raise CaseFailed(f"the job was not done after {self.setting.deadline:.0f} s")

    def last_words(self, rank):
        lines = [line for line in self.output(rank).splitlines() if line.strip()]
        failures = [line for line in lines if "FAILED" in line or "cannot go on" in line or "ERROR" in line]
        return (failures or lines or ["it said nothing"])[-1]

    def wait(self, expected=None):
        """Waits for all processes; each must exit 0, or as `expected` (rank: status) says."""
        end = self.started + self.setting.deadline
        running = dict(self.processes)
        while running:
            for rank, process in list(running.items()):
                wanted = (expected or {}).get(rank, 0)
                if process.poll() is None:
                    if time.monotonic() > end:
                        raise CaseFailed(f"rank {rank} was not done after {self.setting.deadline:.0f} s; it last said: "
                                         f"{self.last_words(rank)}")
                elif process.returncode != wanted:  # the others may wait for it in vain
                    raise CaseFailed(f"rank {rank} exited with {process.returncode} and not {wanted}: {self.last_words(rank)}")
                else:
                    del running[rank]
            time.sleep(0.02)
        return self

    def nccl_log(self):
        texts = []
        for path in sorted(glob.glob(self.path("nccl.*"))):
            with open(path, encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
        return texts

    def check_network(self, times=1):
        """NCCL's own log must say, in each process, which network and which interface of the plugin it took."""
        network = self.rig.network
        logs = self.nccl_log()
        if len(logs) != len(self.processes):
            raise CaseFailed(f"{len(logs)} logs of NCCL for {len(self.processes)} processes")
        for log in logs:
            if len(re.findall(rf"Using network {re.escape(network.name)}\b", log)) < times:
                raise CaseFailed(f"NCCL's log does not say 'Using network {network.name}' {times} times")
            loaded = f"Loaded net plugin {network.name} ({network.version})"
            if network.plugin and loaded not in log:
                raise CaseFailed(f"NCCL's log does not say '{loaded}'")
        return self

    def check_no_errors(self):
        """Never an asynchronous error, nor a warning of the network."""
        for text in [self.all_output(), *self.nccl_log()]:
            for line in text.splitlines():
                if "asynchronous error" in line or ("NET/" in line and " NCCL WARN " in line):
                    raise CaseFailed(f"an error was reported: {line.strip()}")
        return self

    def events(self):
        """What the plugin of all processes reported, as it happened; a broken line fails the case."""
        events = []
        for path in glob.glob(self.path("events.*")):
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    try:
                        events.append(json.loads(line))
                    except ValueError as wrong:
                        raise CaseFailed(f"{path}, line {number} is not JSON: {wrong}") from None
        return events
