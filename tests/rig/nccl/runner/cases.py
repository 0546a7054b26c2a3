"""The cases of the rig: what each runs, and what must be so afterwards."""
import os
import re
import signal
import time
from dataclasses import dataclass

from runner.job import CaseFailed, CaseSkipped, Job, Setting
from runner.rails import RAILS, Hosts


@dataclass
class Case:
    name: str
    sentence: str
    check: object  # a function of the rig
    quick: bool = False


ALL_OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "send_recv", "all_to_all")


def operations(size, rounds):
    return [f"{operation}:{size}:{rounds}" for operation in ALL_OPERATIONS]


def run_job(rig, setting, *steps):
    """A job that must succeed, over the network it was given, without any error."""
    with Job(rig, setting, steps) as job:
        job.wait().check_network().check_no_errors()
        finished = len(re.findall(r"^rank \d+: finished$", job.all_output(), re.MULTILINE))
        if finished != setting.ranks:
            raise CaseFailed(f"{finished} of {setting.ranks} ranks say that they finished")
        return job


# ---- operations

def matrix(algorithm, protocol, ranks, channels, *steps, quick=False):
    # Lengths that fill whole slots, that leave odd remainders, and a few elements only.
    steps = steps or (*operations("200003", 10), *operations("40", 3), "group:50K:1")
    setting = Setting(ranks=ranks, channels=channels, algorithm=algorithm, protocol=protocol)
    return Case(f"{algorithm}-{protocol.lower()}-{ranks}x{channels}",
                f"all operations, {algorithm}, {protocol}: {ranks} ranks, {channels} channels",
                lambda rig: run_job(rig, setting, *steps), quick)


def operations_case(rig):
    run_job(rig, Setting(), *operations("1M", 10), *operations("123456", 60), *operations("0", 2), "group:256K:2")


def large(rig):
    run_job(rig, Setting(channels=2), "all_reduce:96M:2", "send_recv:128M:2", "all_gather:32M:2")


def groups(rig):
    run_job(rig, Setting(ranks=4, channels=2), "group:1M:2", "group:3000:5")


def send_receive_ll(rig):
    setting = Setting(ranks=4, channels=2, protocol="LL", environment={"NCCL_ALLOC_P2P_NET_LL_BUFFERS": "1"})
    run_job(rig, setting, "send_recv:6000:40", "all_to_all:2000:40", "all_to_all:300K:3")


def lazy_connections(rig):
    setting = Setting(ranks=3, channels=2, environment={"NCCL_RUNTIME_CONNECT": "1"})
    run_job(rig, setting, *operations("300K", 4))


def threads(rig):
    run_job(rig, Setting(ranks=4, threads=4), *operations("300K", 6), "split:128K:1")


def threads_and_processes(rig):
    run_job(rig, Setting(ranks=4, threads=2, channels=2), *operations("300K", 6), "group:64K:1")


def device_pointers(rig):
    environment = {"FAKECUDA_GDR": "1", "NCCL_NET_GDR_LEVEL": "SYS", "NCCL_NET_GDR_READ": "1", "NCCL_NET_FORCE_FLUSH": "1"}
    job = run_job(rig, Setting(ranks=3, channels=2, environment=environment), *operations("300K", 6))
    direct = "GDRDMA" in "".join(job.nccl_log())
    return "the plugin took device pointers" if direct else "the plugin wants host pointers, and NCCL gave it such"


# ---- communicators

def split(share):
    return lambda rig: run_job(rig, Setting(ranks=5, channels=2), f"split:128K:{share}")


def lifecycle(times):
    def check(rig):
        setting = Setting(deadline=60 + 6 * times, environment={"NCCL_BUFFSIZE": "262144"})
        with Job(rig, setting, [f"lifecycle:64K:{times}"]) as job:
            job.wait().check_network(times).check_no_errors()
            return re.search(r"communicators: (.*)", job.output(0)).group(1)
    return check


def unloaded(rig):
    """NCCL closes the library with its last communicator and then, in this version, forgets its name: it looks for
    libnccl-net.so. A link of that name lets it find the plugin again."""
    if not rig.network.plugin:
        raise CaseSkipped("there is no plugin to be unloaded")
    folder = rig.new_folder()
    os.symlink(os.path.abspath(rig.network.plugin), os.path.join(folder, "libnccl-net.so"))
    paths = [folder, os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {"NCCL_NET_PLUGIN_REF_COUNT": "0", "LD_LIBRARY_PATH": ":".join(p for p in paths if p),
                   "NCCL_BUFFSIZE": "262144"}
    times = 20
    with Job(rig, Setting(deadline=180, environment=environment), [f"lifecycle:64K:{times}"]) as job:
        job.wait().check_network(times).check_no_errors()


# ---- ends

def abort_case(rig, setting, step):
    with Job(rig, setting, [step]) as job:
        job.wait().check_network(2)
        slowest = max(float(s) for s in re.findall(r"aborted in ([\d.]+) s", job.all_output()))
        return f"the slowest abort took {slowest:.2f} s"


def abort(aborter):
    return lambda rig: abort_case(rig, Setting(ranks=3, channels=2), f"abort:24M:{aborter}")


def killed_case(rig, setting, size, victim):
    with Job(rig, setting, [f"killed:{size}:{victim}"]) as job:
        job.wait({victim: -signal.SIGKILL}).check_network()
        noticed = [float(s) for s in re.findall(r"noticed=([\d.]+) s", job.all_output())]
        if len(noticed) != setting.ranks - 1:
            raise CaseFailed(f"{len(noticed)} of {setting.ranks - 1} survivors noticed")
        if min(noticed) > 10:  # 1 s is meant; ten times that is failure on the busiest machine
            raise CaseFailed(f"the first survivor noticed after {min(noticed):.1f} s")
        return f"noticed after {min(noticed):.2f} s by the first, {max(noticed):.2f} s by the last"


def killed(rig):
    return killed_case(rig, Setting(ranks=4), "16M", 2)


# ---- rails that fail

def _rounds(job):
    numbers = re.findall(r"round=(\d+)", job.output(0))
    return int(numbers[-1]) if numbers else 0


def _wait_for_progress(job, what):
    """Traffic goes on: some rounds more than there were when this was called."""
    goal, end = _rounds(job) + 2, time.monotonic() + 90
    while _rounds(job) < goal:
        job.check_alive()
        if time.monotonic() > end:
            raise CaseFailed(f"no all-reduce was done within 90 s {what}")
        time.sleep(0.1)


def _wait_for_both_rails(job, hosts, what):
    """Both rails carry traffic, as they do when every connection is at home: else a fault would hit nobody."""
    before, end = [hosts.bytes_sent(0, rail) for rail in range(RAILS)], time.monotonic() + 90
    for rail in range(RAILS):
        while hosts.bytes_sent(0, rail) < before[rail] + 4_000_000:
            job.check_alive()
            if time.monotonic() > end:
                raise CaseFailed(f"rail r{rail} was not used for 90 s {what}")
            time.sleep(0.1)


def _faults(hosts):
    yield "a rail drops everything", lambda: hosts.silence(0), 3
    yield "a rail's link is down", lambda: hosts.take_link_down(0, 1), 2
    yield "a rail's address is gone", lambda: hosts.remove_address(1, 0), 2
    yield "a rail's connections are killed", lambda: hosts.kill_connections(0, 0), 1
    yield "the other rail's connections are killed", lambda: hosts.kill_connections(1, 1), 1
    yield "both rails drop everything", lambda: hosts.silence(0, 1), 3
    yield "the first rail's link is down", lambda: hosts.take_link_down(1, 0), 2


def _fail_in_turn(job, hosts):
    """Brings about one fault after the other; returns what and when, in CLOCK_MONOTONIC nanoseconds."""
    moments, last = [], "at the beginning"
    for what, fail, seconds in _faults(hosts):
        _wait_for_progress(job, last)
        _wait_for_both_rails(job, hosts, last)
        moments.append((what, time.monotonic_ns()))
        last = f"after this: {what}"
        repair = fail()
        time.sleep(seconds)
        repair()
    _wait_for_progress(job, last)
    return moments


def _check_flaps(job, moments):
    """Every fault was noticed as a flap before the next one."""
    flaps = [e["mono_ns"] for e in job.events() if e.get("event") == "flap"]
    ends = [start for _, start in moments[1:]] + [float("inf")]
    for (what, start), end in zip(moments, ends):
        if not any(start <= flap < end for flap in flaps):
            raise CaseFailed(f"no flap was reported while this was so: {what}")
    return len(flaps)


def failing_rails(ranks, algorithm, protocol, channels):
    def check(rig):
        if not rig.network.is_ours:
            raise CaseSkipped(f"{rig.network.name} does not outlive its rails")
        with Hosts() as hosts:
            setting = Setting(ranks=ranks, channels=channels, algorithm=algorithm, protocol=protocol, deadline=900,
                              namespaces=hosts.names, rank_environment=hosts.environment)
            stop = os.path.join(rig.new_folder(), "stop")
            with Job(rig, setting, [f"until:4M:{stop}"]) as job:
                moments = _fail_in_turn(job, hosts)
                with open(stop, "w", encoding="utf-8"):
                    pass
                job.wait().check_network().check_no_errors()
                longest = max(float(s) for s in re.findall(r"longest=([\d.]+) s", job.all_output()))
                flaps = _check_flaps(job, moments)
                return f"{_rounds(job)} all-reduces, {flaps} flaps, the longest round took {longest:.2f} s"
    return check


# ---- the rig's own checks can fail

def control_flip(rig):
    _some_rank_says(rig, {"FAULTY_BUG": "flip"}, "WRONG: ")


def control_early(rig):
    _some_rank_says(rig, {"FAULTY_BUG": "early"}, "WRONG: ")


def control_error(rig):
    _some_rank_says(rig, {"FAULTY_FAIL_AFTER": "40"}, "asynchronous error: .*system")


def _some_rank_says(rig, environment, pattern):
    """Bad data need not reach every rank, and the others may then wait in vain: one that notices is enough."""
    faulty = rig.over_faulty_plugin()
    with Job(faulty, Setting(environment=environment), ["all_reduce:1M:200"]) as job:
        end = time.monotonic() + 120
        while not re.search(pattern, job.all_output()):
            if time.monotonic() > end or all(p.poll() is not None for p in job.processes.values()):
                raise CaseFailed(f"nobody said anything like '{pattern}'")
            time.sleep(0.1)
        noticed = [rank for rank in job.processes if re.search(pattern, job.output(rank))]
        if job.processes[noticed[0]].wait(60) != 1:
            raise CaseFailed("a rank that had noticed an error did not say so by its exit status")


def control_right(rig):
    faulty = rig.over_faulty_plugin()
    run_job(faulty, Setting(ranks=3), *operations("300K", 3))


def control_device_pointers(rig):
    faulty = rig.over_faulty_plugin()
    environment = {"FAKECUDA_GDR": "1", "NCCL_NET_GDR_LEVEL": "SYS", "NCCL_NET_GDR_READ": "1", "FAULTY_GDR": "1"}
    job = run_job(faulty, Setting(environment=environment), *operations("300K", 3))
    if "GDRDMA" not in "".join(job.nccl_log()):
        raise CaseFailed("NCCL did not give device pointers to a plugin that takes them")


CASES = [
    Case("operations", "2 ranks: every operation over all types and reductions, from 0 bytes to 1 MiB", operations_case, True),
    matrix("ring", "Simple", 3, 4),
    matrix("ring", "Simple", 4, 16, *operations("600K", 4), "group:100K:1"),
    matrix("ring", "Simple", 8, 1, *operations("100K", 5), "group:20K:1"),
    matrix("ring", "LL", 2, 4),
    matrix("ring", "LL", 3, 2, quick=True),
    matrix("ring", "LL", 8, 2, *operations("50K", 4), "group:10K:1"),
    matrix("tree", "Simple", 3, 2, quick=True),
    matrix("tree", "Simple", 8, 1, "all_reduce:400K:12", "all_reduce:40:5", "group:20K:1"),
    matrix("tree", "LL", 4, 2, "all_reduce:200K:30", "all_reduce:40:5", "group:50K:1"),
    matrix("tree", "LL", 5, 8, "all_reduce:200K:12", "group:20K:1"),
    Case("large", "2 ranks: operations of up to 128 MiB", large),
    Case("groups", "4 ranks: groups of 67 operations of all kinds, types and sizes", groups),
    Case("send-recv-ll", "4 ranks: small sends and receives by the protocol LL", send_receive_ll),
    Case("lazy", "3 ranks: connections made by the first operation that needs them", lazy_connections),
    Case("threads", "4 ranks as threads of one process", threads, True),
    Case("threads-2x2", "4 ranks, two in each of two processes", threads_and_processes),
    Case("device-pointers", "3 ranks on devices that could hand their memory to the NIC", device_pointers),
    Case("split", "5 ranks: sub-communicators with resources of their own", split(0)),
    Case("split-shared", "5 ranks: sub-communicators that share and outlive their parent's resources", split(1), True),
    Case("abort-all", "3 ranks abort with traffic in flight, then start anew", abort(-1), True),
    Case("abort-one", "one of 3 ranks aborts, the others are told; then they start anew", abort(1)),
    Case("killed", "one of 4 ranks is killed with traffic in flight: the others are told and abort", killed, True),
    Case("lifecycle", "a communicator made, used and destroyed a hundred times leaves nothing behind", lifecycle(100)),
    Case("lifecycle-short", "the same, ten times", lifecycle(10), True),
    Case("unloaded", "NCCL closes and opens the plugin's library twenty times", unloaded),
    Case("rails", "2 ranks: all-reduces go on, and are right, while rails fail in turn", failing_rails(2, "ring", "Simple", 2)),
    Case("rails-tree", "4 ranks: the same by tree and LL", failing_rails(4, "tree", "LL", 2)),
    Case("control-right", "the control plugin, told nothing, gives right results", control_right),
    Case("control-flip", "the checks notice a flipped bit", control_flip, True),
    Case("control-early", "the checks notice a receive that is reported too early", control_early),
    Case("control-error", "a plugin's error ends in NCCL's asynchronous error and an abort", control_error),
    Case("control-device-pointers", "device pointers do reach a plugin that takes them", control_device_pointers),
]
