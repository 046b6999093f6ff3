"""Four network namespaces behind a bridge, with slower links between some of the pairs. This is as near to four hosts
as one machine gets."""

import two_hosts
from two_hosts import BUCKET

PLACES = ("mc2testa", "mc2testb", "mc2testc", "mc2testd")
BRIDGE = "mc2testbridge"
ADDRESSES = ("10.177.0.1", "10.177.0.2", "10.177.0.3", "10.177.0.4")


def remove_places():
    two_hosts.remove_places((*PLACES, BRIDGE))


def make_places(rate, slow_rate, slow_pairs):
    """Makes the namespaces. Returns why it cannot, or None. The rates are tc's, for each direction; the pairs count
    places from 0."""
    remove_places()
    steps = [f"ip netns add {BRIDGE}", f"ip -n {BRIDGE} link add bridge type bridge"]
    steps.append(f"ip -n {BRIDGE} link set bridge up")
    for at, place in enumerate(PLACES):
        steps += [
            f"ip netns add {place}",
            f"ip link add eth0 netns {place} type veth peer name port{at} netns {BRIDGE}",
            f"ip -n {BRIDGE} link set port{at} master bridge up",
            f"ip -n {place} addr add {ADDRESSES[at]}/24 dev eth0",
            f"ip -n {place} link set lo up",
            f"ip -n {place} link set eth0 up",
            f"tc -n {place} qdisc add dev eth0 root handle 1: htb default 10",
            f"tc -n {place} class add dev eth0 parent 1: classid 1:10 htb rate {rate} burst {BUCKET}",
            f"tc -n {place} class add dev eth0 parent 1: classid 1:20 htb rate {slow_rate} burst 32kb",
        ]
        for pair in slow_pairs:
            for other in (place for place in pair if at in pair and place != at):
                steps.append(
                    f"tc -n {place} filter add dev eth0 parent 1: protocol ip u32 "
                    f"match ip dst {ADDRESSES[other]}/32 flowid 1:20"
                )
    return two_hosts.fault_of(steps)


def write_agent(path):
    """Writes the program that mpirun starts instead of ssh: HOST COMMAND..."""
    places = "".join(f"{address}) place={place};;\n" for place, address in zip(PLACES, ADDRESSES))
    path.write_text(
        f"#!/bin/sh\nhost=$1; shift\ncase $host in\n{places}esac\n"
        'exec ip netns exec $place unshare --uts /bin/sh -c "hostname $place; $*"\n'
    )
    path.chmod(0o755)


def launch_command(mpirun, agent):
    """The command that starts one rank in each place."""
    enter = ["ip", "netns", "exec", PLACES[0], "unshare", "--uts", "sh", "-c", f'hostname {PLACES[0]}; exec "$@"', "sh"]
    return [*enter, *two_hosts.mpirun_command(mpirun, agent, ADDRESSES)]
