"""Two network namespaces, joined by a veth pair of limited rate: as near to two hosts as one machine gets."""

import os
import pathlib
import shutil
import signal
import subprocess

PLACES = ("mc2testa", "mc2testb")
ADDRESSES = ("10.177.0.1", "10.177.0.2")
NAMES = ("host-a", "host-b")  # host names, the same in both places
NETWORK = "10.177.0.0/24"
NAMED = pathlib.Path("/etc/netns")  # `ip netns exec` puts files from here over those of /etc
# Has room for two of TCP's 64 KiB segments, which take 1 ms at 1 Gbit/s. With a smaller bucket tbf cuts every segment
# into packets on the ranks' own cores, which a network card does by itself. In both directions at 1 Gbit/s, 32 KiB
# keeps 2 cores 96 % busy, 128 KiB 6 %.
BUCKET = "128kb"


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


def remove_places(places=PLACES):
    if shutil.which("ip") is None:
        return  # without ip no place was made
    for place in places:
        for process in ip("netns", "pids", place).stdout.split():
            try:
                os.kill(int(process), signal.SIGKILL)  # a launcher's daemon that was cut off
            except ProcessLookupError:
                pass
        ip("netns", "del", place)
        shutil.rmtree(NAMED / place, ignore_errors=True)


def fault_of(steps):
    """Runs these commands of iproute2. Returns why one of them failed, or None."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "ip and tc are missing; iproute2 has them"
    for step in steps:
        done = subprocess.run(step.split(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"network namespaces of limited rates cannot be made here: {step}: {done.stderr.strip()}"
    return None


def make_places(rate):
    """Makes the two namespaces. Returns why it cannot, or None. `rate` is tc's, for each direction, e.g. 1gbit."""
    remove_places()
    steps = [f"ip netns add {place}" for place in PLACES]
    steps.append(f"ip link add eth0 netns {PLACES[0]} type veth peer name eth0 netns {PLACES[1]}")
    for place, address in zip(PLACES, ADDRESSES):
        steps += [
            f"ip -n {place} addr add {address}/24 dev eth0",
            f"ip -n {place} link set lo up",
            f"ip -n {place} link set eth0 up",
            f"tc -n {place} qdisc add dev eth0 root tbf rate {rate} burst {BUCKET} latency 100ms",
        ]
    fault = fault_of(steps)
    if fault:
        return fault
    names = "".join(f"{address} {name}\n" for address, name in zip(ADDRESSES, NAMES))
    for place in PLACES:
        (NAMED / place).mkdir(parents=True, exist_ok=True)
        (NAMED / place / "hosts").write_text(f"127.0.0.1 localhost\n{names}", encoding="utf-8")
        # Reno is like the usual cubic, and allowed in a namespace. Where the system uses BBR, its pacing takes time of
        # the ranks' cores.
        ip("netns", "exec", place, "sh", "-c", "echo reno > /proc/sys/net/ipv4/tcp_congestion_control")
    return None


def bits_per_us(rate):
    """Bits per us of a rate as tc writes it: 1gbit, 2500mbit."""
    units = {"gbit": 1000, "mbit": 1}
    return int(rate[:-4]) * units[rate[-4:]]


def write_agent(path):
    """Writes the program that mpirun starts instead of ssh: HOST COMMAND... It gives the place a host name of its
    own, by which Open MPI decides who shares memory."""
    path.write_text(
        "#!/bin/sh\nshift\n" f'exec ip netns exec {PLACES[1]} unshare --uts /bin/sh -c "hostname {PLACES[1]}; $*"\n'
    )
    path.chmod(0o755)


def settings(agent, ranks=1):
    """Settings of Open MPI for this many ranks in each place: TCP alone between places, shared memory within one."""
    return {
        "plm": "rsh",
        "plm_rsh_agent": str(agent),
        "pml": "ob1",
        "btl": "tcp,self" if ranks == 1 else "tcp,vader,self",
        "btl_tcp_if_include": NETWORK,
        "oob_tcp_if_include": NETWORK,
        # Lets the launcher's own connection notice a link that is cut, too.
        "oob_tcp_keepalive_time": "1",
        "oob_tcp_keepalive_intvl": "1",
        "oob_tcp_keepalive_probes": "3",
    }


def mpirun_command(mpirun, agent, addresses, ranks=1):
    """The command for this many ranks in each place, ordered by place. It must run where the first ranks are."""
    hosts = ",".join(f"{address}:{ranks}" for address in addresses)
    options = f"--allow-run-as-root --host {hosts} --map-by slot --bind-to none -np {len(addresses) * ranks}"
    command = [mpirun, *options.split()]
    for name, value in settings(agent, ranks).items():
        command += ["--mca", name, value]
    return command


def launch_command(mpirun, agent, ranks=1):
    return ["ip", "netns", "exec", PLACES[0], *mpirun_command(mpirun, agent, ADDRESSES, ranks)]
