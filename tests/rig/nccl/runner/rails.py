"""Two pretended hosts joined by two rails and a management network, and ways in which a rail fails.

Each host is a network namespace; r0, r1 (the rails) and m0 (NCCL's own bootstrap) are veth pairs. Needs root.
"""
import itertools
import json
import os
import shutil
import subprocess
import sys
import time

from runner.job import CaseSkipped

RAILS = 2
PATIENCE = 240  # seconds for a command that changes the network: a kernel under load may need many


def _run(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{' '.join(command)}: not done after {PATIENCE} s") from None
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


class Hosts:
    """The two hosts. Use as a context: the namespaces go with it, and with them all that is in them."""

    _numbers = itertools.count(1)

    def __init__(self):
        if os.geteuid() != 0:
            raise CaseSkipped("rails are failed in network namespaces, which needs root")
        for tool in ("ip", "nft", "ss"):
            if not shutil.which(tool):
                raise CaseSkipped(f"{tool} is not installed (packages iproute2, nftables)")
        number = next(Hosts._numbers)
        self.names = [f"rig-{os.getpid()}-{number}{host}" for host in "ab"]

    def __enter__(self):
        try:
            for name in self.names:
                _run("ip", "netns", "add", name)
        except RuntimeError as refused:
            self.__exit__()
            raise CaseSkipped(f"no network namespaces here: {refused}") from None
        try:
            for link in [f"r{i}" for i in range(RAILS)] + ["m0"]:
                _run("ip", "link", "add", link, "netns", self.names[0], "type", "veth", "peer", "name", link, "netns",
                     self.names[1])
            for host in range(2):
                self._in(host, "ip", "link", "set", "lo", "up")
                self._add_link(host, "m0", f"10.98.9.{host + 1}")
                for rail in range(RAILS):
                    self._add_link(host, f"r{rail}", self.address(host, rail))
            self._wait_until_up()
        except RuntimeError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in (name for name in self.names if os.path.exists(f"/run/netns/{name}")):
            try:
                _run("ip", "netns", "del", name)
            except RuntimeError as refused:  # the other one is to go all the same
                print(f"the namespace {name} is left behind: {refused}", file=sys.stderr)

    def _in(self, host, *command):
        return _run("ip", "netns", "exec", self.names[host], *command)

    def _add_link(self, host, link, address):
        self._in(host, "ip", "addr", "add", f"{address}/24", "dev", link)
        self._in(host, "ip", "link", "set", link, "up")

    def _wait_until_up(self):
        """A link is up a little after both its ends were set up, and NCCL takes only those that are."""
        end = time.monotonic() + 30
        for host in range(2):
            while self._in(host, "ip", "-o", "link", "show", "up").count("state UP") < RAILS + 1:
                if time.monotonic() > end:
                    raise RuntimeError("the links between the namespaces did not come up within 30 s")
                time.sleep(0.05)

    @staticmethod
    def address(host, rail):
        return f"10.98.{rail}.{host + 1}"

    def environment(self, rank):
        """Where a rank finds its rails, and NCCL its bootstrap; a short hold, so that rails come home between two faults."""
        rails = ",".join(self.address(rank % 2, rail) for rail in range(RAILS))
        return {"MEGASCALE_RAILS": rails, "NCCL_SOCKET_IFNAME": "m0", "MEGASCALE_RETURN_HOLD": "100ms"}

    def bytes_sent(self, host, rail):
        shown = json.loads(self._in(host, "ip", "-s", "-j", "link", "show", f"r{rail}"))
        return shown[0]["stats64"]["tx"]["bytes"]

    # ---- what can happen to rails; each returns what puts it right again

    def silence(self, *rails):
        """Everything that arrives over the rails is dropped, and nobody is told."""
        links = ", ".join(f'"r{rail}"' for rail in rails)
        for host in range(2):
            self._in(host, "nft", "add table inet rig\n"
                     "add chain inet rig arriving { type filter hook input priority 0; }\n"
                     f"add rule inet rig arriving iifname {{ {links} }} drop")
        return lambda: [self._in(host, "nft", "delete", "table", "inet", "rig") for host in range(2)]

    def take_link_down(self, host, rail):
        self._in(host, "ip", "link", "set", f"r{rail}", "down")
        return lambda: self._in(host, "ip", "link", "set", f"r{rail}", "up")

    def remove_address(self, host, rail):
        address, link = f"{self.address(host, rail)}/24", f"r{rail}"
        self._in(host, "ip", "addr", "del", address, "dev", link)
        return lambda: self._in(host, "ip", "addr", "add", address, "dev", link)

    def kill_connections(self, host, rail):
        """The host's kernel destroys the rail's TCP connections, as an administrator's `ss -K` does."""
        self._in(host, "ss", "-K", "-t", "state", "established", "src", self.address(host, rail))
        return lambda: None
