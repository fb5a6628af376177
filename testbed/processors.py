# SPDX-License-Identifier: BSD-3-Clause
"""What this machine's processors did meanwhile. A figure of a testbed is one of the network only as long as they had time
to spare, and on a virtual machine as long as the host let them run."""

NAMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def read_times(path="/proc/stat"):
    """Seconds of all processors together in an unknown unit, by what they did (proc(5))."""
    with open(path, encoding="ascii") as file:
        words = file.readline().split()
    return dict(zip(NAMES, map(int, words[1:]), strict=False))


def spent_between(before, after):
    """What they did in the time between."""
    return {name: after[name] - before[name] for name in before}


def sum_of(times):
    """What they did in all of these times together."""
    times = list(times)
    return {name: sum(spent[name] for spent in times) for name in (times[0] if times else NAMES)}


def shares(spent):
    """Of that time: the share in which processors had nothing to do, and that in which somebody else had them."""
    whole = sum(spent.values())
    if whole <= 0:
        return {"idle": None, "stolen": None}
    return {"idle": (spent["idle"] + spent["iowait"]) / whole, "stolen": spent.get("steal", 0) / whole}


def is_calm(spent, limit):
    """Whether somebody else had no more of that time than this share. Where nobody can tell, nothing was taken."""
    return (shares(spent)["stolen"] or 0) <= limit
