# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison has found: tables for people, JSON for programs, plots through gnuplot.

A cell is the median over rounds; a ratio between contenders is the median of the ratios inside one round, so that what
slows the whole machine down for a while does not count.
"""
import json
import subprocess
from statistics import median

from collectives import COLLECTIVES
from network import Failure

MPI = ("openmpi", "mpich", "mpich-polls")
COLOURS = {"tutti": "#0060ad", "openmpi": "#dd181f", "mpich": "#e69f00", "mpich-polls": "#999999"}


class Results:
    def __init__(self, heading):
        self.heading = heading
        self.contenders = list(heading["contenders"])
        self.rows = {}  # (collective, size, contender): {round: row}

    def add(self, number, collective, size, contender, row):
        self.rows.setdefault((collective, size, contender), {})[number] = row

    def sizes(self, collective):
        return sorted({size for of, size, _ in self.rows if of == collective})

    def over_rounds(self, collective, size, contender, function):
        """The median of a figure of each round's row, or None where there is none."""
        figures = [figure for row in self.rows.get((collective, size, contender), {}).values()
                   if (figure := function(row)) is not None]
        return median(figures) if figures else None

    def time_us(self, collective, size, contender):
        return self.over_rounds(collective, size, contender, lambda row: row["time_us"]["slowest"])

    def against_best_mpi(self, collective, size):
        """tutti's time over that of the better MPI in the same round."""
        ratios = []
        for number, row in self.rows.get((collective, size, "tutti"), {}).items():
            others = [self.rows[collective, size, name][number]["time_us"]["slowest"] for name in MPI
                      if number in self.rows.get((collective, size, name), {})]
            if others:
                ratios.append(row["time_us"]["slowest"] / min(others))
        return median(ratios) if ratios else None

    def moved_bytes(self, collective, size):
        """What has to cross the switch's ports, both directions, in one iteration."""
        of, hosts = COLLECTIVES[collective], self.heading["hosts"]
        return size * (of.sent(hosts) + of.received(hosts))

    def bytes_ratio(self, collective, size, contender):
        """Bytes of all rounds that were counted, start and barriers included, over those that have to be."""
        def of(row):
            if "switch" not in row or not size:
                return None
            counted = row["switch"]["in_bytes"] + row["switch"]["out_bytes"]
            return counted / ((row["iterations"] + row["warmup"]) * self.moved_bytes(collective, size))
        return self.over_rounds(collective, size, contender, of)

    def drops(self, collective, size, contender):
        def of(row):
            return row["switch"]["queue_drops"] + row["switch"]["host_drops"] if "switch" in row else None
        return self.over_rounds(collective, size, contender, of)

    def cpu_s_per_gb(self, collective, size, contender):
        """Processor seconds of all ranks for each 10^9 bytes that receivers were given."""
        delivered = size * COLLECTIVES[collective].received(self.heading["hosts"])
        if not delivered:
            return None
        return self.over_rounds(collective, size, contender,
                                lambda row: row["cpu_s"] / (row["iterations"] * delivered / 1e9))

    # --- Tables -------------------------------------------------------------------------------------------------------

    def tables(self, collective, wire_s):
        head = self.heading
        rate = f"{head['rate_bps'] / 1e6:g} Mbit/s links" if head["rate_bps"] else "links without a limit"
        of = COLLECTIVES[collective]
        what = f"{collective} ({head['operation']} of {head['type']})" if of.reduces else collective
        lines = [f"# {what}, {head['hosts']} hosts, {rate}, MTU {head['mtu']}, loss {head['loss_percent']:g} %; "
                 f"{head['machine']}; {head['rounds']} rounds"]
        lines += [f"#   {name}: {how}" for name, how in head["contenders"].items()]
        lines.append("# time: the slowest rank's, median of iterations, then of rounds"
                     + (f"; over wire: against {of.link_formula} / rate" if of.link else ""))
        lines += self._table(collective, ["wire us", *(f"{name} us" for name in self.contenders),
                                          *(f"{name}/wire" for name in self.contenders), "tutti/best MPI"],
                             lambda size: self._time_cells(collective, size, wire_s(size)))
        lines.append("# switch: bytes at its ports, both directions"
                     + (f", over {of.moved_formula}" if of.moved_formula else "") + "; drops: frames that a full queue "
                     "dropped in a launch; cpu: processor seconds for each GB delivered")
        lines += self._table(collective, [f"{name} {what}" for what in ("switch", "drops", "cpu")
                                          for name in self.contenders],
                             lambda size: [function(collective, size, name)
                                           for function in (self.bytes_ratio, self.drops, self.cpu_s_per_gb)
                                           for name in self.contenders])
        return "\n".join(lines) + "\n"

    def _time_cells(self, collective, size, wire_s):
        times = [self.time_us(collective, size, name) for name in self.contenders]
        over = [time / (wire_s * 1e6) if time is not None and wire_s else None for time in times]
        return [wire_s and wire_s * 1e6, *times, *over, self.against_best_mpi(collective, size)]

    def _table(self, collective, names, cells_of):
        lines = [f"{'size':>10}" + "".join(f" {name:>{width(name)}}" for name in names)]
        for size in self.sizes(collective):
            cells = [f" {number(cell):>{width(name)}}" for name, cell in zip(names, cells_of(size), strict=True)]
            lines.append(f"{size:>10}" + "".join(cells))
        return lines

    # --- JSON and plots -----------------------------------------------------------------------------------------------

    def write_json(self, path):
        rows = [{"contender": contender, "round": number, **row}
                for (_, _, contender), rounds in self.rows.items() for number, row in rounds.items()]
        summary = [{"collective": collective, "size_bytes": size, "contender": contender,
                    "slowest_us": self.time_us(collective, size, contender),
                    "switch_ratio": self.bytes_ratio(collective, size, contender),
                    "queue_drops": self.drops(collective, size, contender),
                    "cpu_s_per_GB": self.cpu_s_per_gb(collective, size, contender),
                    "over_best_mpi": self.against_best_mpi(collective, size) if contender == "tutti" else None}
                   for collective, size, contender in self.rows]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**self.heading, "summary": summary, "rows": rows}, file, indent=1)
            file.write("\n")

    def plot(self, collective, stem, wire_s):
        """Time over size, both logarithmic, as STEM.svg and STEM.png."""
        head = self.heading
        rate = f"{head['rate_bps'] / 1e6:g} Mbit/s" if head["rate_bps"] else "no limit"
        script = [f'set title "{collective}, {head["hosts"]} hosts, {rate}, loss {head["loss_percent"]:g} %"',
                  "set logscale xy", "set logscale x 2", "set grid", "set key left top",
                  'set xlabel "bytes a rank"', 'set ylabel "time of the slowest rank, us (median)"',
                  'set format x "%.0b%B"', 'set format y "10^{%L}"']
        curves, blocks = [], []
        for name in self.contenders:
            points = [(size, self.time_us(collective, size, name)) for size in self.sizes(collective)]
            points = [point for point in points if point[1] is not None]
            if points:
                curves.append(f"'-' with linespoints lc rgb '{COLOURS[name]}' pt 7 title '{name}'")
                blocks.append(points)
        if blocks:
            script.append(f"set yrange [{min(time for block in blocks for _, time in block) / 2}:]")
        if head["rate_bps"]:
            curves.append("'-' with lines dt 2 lc rgb 'black' title 'wire limit'")
            blocks.append([(size, wire_s(size) * 1e6) for size in self.sizes(collective)])
        if not curves:
            raise Failure(f"nothing of {collective} to plot")
        data = "".join("".join(f"{x} {y}\n" for x, y in block) + "e\n" for block in blocks)
        for terminal, suffix in (("svg size 900,600 background rgb 'white'", "svg"), ("pngcairo size 900,600", "png")):
            lines = [f"set terminal {terminal}", f"set output '{stem}.{suffix}'", *script, "plot " + ", ".join(curves)]
            result = subprocess.run(["gnuplot"], input="\n".join(lines) + "\n" + data, capture_output=True, text=True,
                                    timeout=60, check=False)
            if result.returncode != 0:
                raise Failure(f"gnuplot: {' '.join(result.stderr.split())}")


def width(name):
    return max(9, len(name))


def number(figure):
    if figure is None:
        return "-"
    if isinstance(figure, int) or figure == 0 or figure >= 1000:
        return f"{figure:.0f}"
    return f"{figure:.3g}" if figure >= 100 or figure < 1 else f"{figure:.2f}"
