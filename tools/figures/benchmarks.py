"""Tables of what tools/benchmark/run measured."""

import statistics
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmark"))
from measurements import COMPILED, COST_MODEL, FLOE, PYTORCH, QUANTISED, TIMING_TABLE, Results
from rounding import said

# Targets whose plans the measured GPU runs as its own: on all of it and on a slice.
RAN = ("h200", "h200-16")
# A Jetson that so many multiprocessors of another GPU stand for.
STANDS_FOR = {16: "jetson-agx-orin", 8: "jetson-orin-nano"}
PEERS = {PYTORCH: "PyTorch + cuDNN", COMPILED: "torch.compile"}
NAMES = {"jetson-agx-orin": "AGX Orin", "jetson-orin-nano": "Orin Nano"}


def count(rows):
    """How many rows, in words."""
    return f"{len(rows)} row" if len(rows) == 1 else f"{len(rows)} rows"


def table(heads, rows):
    """Markdown, without the columns that are empty throughout."""
    kept = [column for column in range(len(heads)) if any(row[column] for row in rows)]
    lines = [[heads[column] for column in kept], ["---"] * len(kept), *([row[column] for column in kept] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def listed(words):
    words = list(words)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


class Benchmarks:
    """The results in one file, the descriptions of targets, and those of the devices, where the measured GPU has its own numbers."""

    def __init__(self, file, descriptions):
        self.results = Results(file)
        if not self.results.lines:
            raise LookupError(f"{file} holds no results")
        self.descriptions = {path.stem: tomllib.loads(path.read_text()) for path in descriptions.glob("*.toml")}
        gpus = tomllib.loads((descriptions.parent / "benchmarks/gpus.toml").read_text())
        own = gpus.get(self.results.run["machines"][0]["gpu"], {})
        self.devices = {name: device | own if name in RAN else device for name, device in self.descriptions.items()}
        cases = dict.fromkeys((line["network"], line["batch"]) for line in self.results.lines)
        self.cases = [case for case in cases if not case[0].endswith(QUANTISED)]
        self.quantised_cases = [case for case in cases if case[0].endswith(QUANTISED)]

    # What there is of a network.

    def line(self, case, sms, program, **wanted):
        found = self.results.find(network=case[0], batch=case[1], sms=sms, program=program, **wanted)
        # Where no step has a measured time, the cost model chose.
        return None if found and found.get("plan") == TIMING_TABLE and found.get("measured") == 0 else found

    def time(self, case, sms, program, column="device", **wanted):
        """Median in microseconds, or None."""
        line = self.line(case, sms, program, **wanted)
        return line[column]["median"] if line else None

    def f16_error(self, case, sms, program, **wanted):
        """How far results in f16 are from f32, or nothing where that was not measured."""
        line = self.line(case, sms, program, **wanted)
        return said(line["f16_error"]) if line and "f16_error" in line else ""

    def fact(self, case, name, **wanted):
        """What was counted of a plan of Floe, or None."""
        line = self.results.find(network=case[0], batch=case[1], program=FLOE, **wanted)
        return line.get(name) if line else None

    # What a device takes at least.

    def floor(self, case, target):
        """Microseconds: operations at the peak rate, or the model from memory as far as it exceeds the cache."""
        flops, elements = (self.fact(case, name, target=target) for name in ("flops", "elements"))
        if flops is None or elements is None:
            return None
        device = self.devices[target]
        rate, size = ("int8_tops", 1) if case[0].endswith(QUANTISED) else ("f16_tflops", 2)
        beyond_cache = max(size * elements - device["l2_bytes"], 0)
        return max(flops / (device[rate] * 1e6), beyond_cache / (device["bandwidth"] * 1e3))

    def traffic(self, case, target):
        """Microseconds that memory takes if all operands of all steps come from there and go there."""
        count = self.fact(case, "bytes", target=target)
        return count and count / (self.devices[target]["bandwidth"] * 1e3)

    # Text.

    def caption(self, sms, peer):
        """Machine, commit and date of a table of Floe and a peer."""
        run = self.results.run
        numbers = sorted(
            {line["machine"] for line in self.results.lines if line["sms"] == sms and line["program"] in (FLOE, peer)}
        )
        machines = [run["machines"][number] for number in numbers]
        gpus = [f"{machine['gpu']}, driver {machine['driver']}" for machine in machines]
        peers = [
            f"PyTorch {machine['torch']}, cuDNN {version(machine['cudnn'])}" for machine in machines if "torch" in machine
        ]
        where = f"{sms} multiprocessors of an " if sms else ""
        made = "; ".join(dict.fromkeys([*gpus, *peers]))
        return f"*Microseconds, medians. {where}{made}; commit {run['commit'][:7]}{'' if run['commit'].isalnum() else ' with changes'}, {run['date']}.*"

    def ratios(self, sms, peer, cases=None, **wanted):
        """The peer's time over Floe's, by case."""
        pairs = {case: (self.time(case, sms, peer), self.time(case, sms, FLOE, **wanted)) for case in cases or self.cases}
        return {case: peer / own for case, (peer, own) in pairs.items() if peer and own}

    def mean(self, ratios, peer, what):
        """A sentence: the mean with and without recurrent layers, and where Floe is slower."""
        plain = {case: ratio for case, ratio in ratios.items() if not self.fact(case, "recurrent")}
        text = f"{what}: {PEERS[peer]} takes **{statistics.geometric_mean(ratios.values()):.2f}** times as long as Floe "
        text += f"(geometric mean of {count(ratios)}"
        if plain and len(plain) < len(ratios):
            left = len(ratios) - len(plain)
            text += f"; {statistics.geometric_mean(plain.values()):.2f} without the {left} with recurrent layers"
        return f"{text}). Floe is slower on {losses(ratios)}."

    def errors(self, sms, peer, wanted):
        """A sentence: where the results in f16 are further from f32 than the peer's; nothing where that was not measured."""
        pairs = {case: (self.line(case, sms, FLOE, **wanted), self.line(case, sms, peer)) for case in self.cases}
        found = {case: [line.get("f16_error") for line in pair] for case, pair in pairs.items() if all(pair)}
        ratios = {case: own / other for case, (own, other) in found.items() if own and other}
        if not ratios:
            return []
        beyond = [f"{case[0]} ({value:.2f} times)" for case, value in ratios.items() if value > 1]
        mean = statistics.geometric_mean(ratios.values())
        text = f"- Floe's f16 error is **{mean:.2f}** times {PEERS[peer].split()[0]}'s (geometric mean of {count(ratios)}); "
        return [text + (f"larger on {listed(beyond)}." if beyond else "larger on none.")]

    def comparison(self, sms, plans, peer=PYTORCH, more=()):
        """Rows of networks: times of Floe by each plan (a name, target and kind), of a peer, ratios, and further columns."""
        plans = {name: {"target": target, "plan": plan} for name, target, plan in plans}
        ratios = {name: self.ratios(sms, peer, **wanted) for name, wanted in plans.items()}
        heads = ["network", "batch", "steps", "measured", *(f"Floe, {name}" for name in plans), "round trip", PEERS[peer]]
        heads += [*(f"ratio, {name}" for name in plans), "f16 error: Floe", f"f16 error: {PEERS[peer].split()[0]}"]
        heads += [name for name, _ in more]
        rows = []
        for case in self.cases:
            times = [self.time(case, sms, FLOE, **wanted) for wanted in plans.values()]
            if not any(times) or (peer != PYTORCH and not self.time(case, sms, peer)):
                continue
            first = next(wanted for wanted, time in zip(plans.values(), times) if time)
            steps, trip = self.fact(case, "steps", sms=sms, **first), self.time(case, sms, FLOE, "round_trip", **first)
            counts = [
                self.fact(case, "measured", sms=sms, **wanted) for wanted in plans.values() if wanted["plan"] == TIMING_TABLE
            ]
            row = [
                case[0],
                str(case[1]),
                str(steps),
                "".join(str(count) for count in counts if count),
                *map(whole, times),
                whole(trip),
                whole(self.time(case, sms, peer)),
            ]
            row += [ratio(found.get(case)) for found in ratios.values()]
            row += [self.f16_error(case, sms, FLOE, **first), self.f16_error(case, sms, peer)]
            rows.append([*row, *(at_least(column(case)) for _, column in more)])
        if not rows:
            return NONE
        means = [f"- {self.mean(found, peer, f'Plans by the {name}')}" for name, found in ratios.items() if found]
        means += self.errors(sms, peer, next(iter(plans.values())))
        return "\n\n".join([self.caption(sms, peer), table(heads, rows), "\n".join(means)]).rstrip()

    # The figures.

    def whole(self):
        """The whole GPU."""
        plans = [(kind, "h200", kind) for kind in (COST_MODEL, TIMING_TABLE)]
        return self.comparison(0, plans, more=[("floor", lambda case: self.floor(case, "h200"))])

    def compiled(self):
        """The whole GPU, against torch.compile."""
        return self.comparison(0, [(COST_MODEL, "h200", COST_MODEL)], COMPILED)

    def slice(self, sms):
        """Orin's code on a slice, with what the Jetson would take at least."""
        target = STANDS_FOR[int(sms)]
        columns = [("floor", self.floor), ("traffic", self.traffic)]
        more = [(f"{NAMES[target]}: {name}", lambda case, column=column: column(case, target)) for name, column in columns]
        return self.comparison(int(sms), [(COST_MODEL, target, COST_MODEL)], more=more)

    def hopper_slice(self):
        """Hopper's code on the slice."""
        return self.comparison(16, [(kind, "h200-16", kind) for kind in (COST_MODEL, TIMING_TABLE)])

    def quantised(self):
        """8 bits against f16: the whole GPU, and Orin's code on slices."""
        places = [(0, "h200"), *STANDS_FOR.items()]
        heads = ["network", "steps: f16", "8 bits"]
        for sms, target in places:
            where = f"{sms} SMs" if sms else "whole GPU"
            heads += [f"{where}: f16", "8 bits", "ratio"]
        rows, ratios = [], {sms: {} for sms, _ in places}
        for case in self.quantised_cases:
            plain = (case[0].removesuffix(QUANTISED), case[1])
            steps = [self.fact(which, "steps", sms=16, plan=COST_MODEL) for which in (plain, case)]
            row = [plain[0], *(str(count or "") for count in steps)]
            for sms, target in places:
                f16, int8 = (self.time(which, sms, FLOE, target=target, plan=COST_MODEL) for which in (plain, case))
                if f16 and int8:
                    ratios[sms][plain] = f16 / int8
                row += [whole(f16), whole(int8), ratio(ratios[sms].get(plain))]
            rows.append(row)
        if not rows:
            return NONE
        means = []
        for sms, target in places:
            found = ratios[sms]
            if not found:
                continue
            what = f"On {sms} multiprocessors, with {NAMES[target]}'s code" if sms else "On the whole GPU"
            mean = statistics.geometric_mean(found.values())
            means.append(
                f"- {what}: f16 takes **{mean:.2f}** times as long as 8 bits (geometric mean of {count(found)}). "
                f"8 bits are slower on {losses(found)}."
            )
        caption = self.caption(0, FLOE).removesuffix("*") + " Batch 1, plans by the cost model.*"
        return "\n\n".join([caption, table(heads, rows), "\n".join(means)])

    def expected(self, case, sms):
        """Microseconds that the cost model expects on so many multiprocessors, at their clock; those of a replay; and the second
        over the first. No ratio where memory decides, since a slice has another memory than the Jetson. None without times."""
        target = STANDS_FOR.get(sms, "h200")
        line = self.line(case, sms, FLOE, target=target, plan=COST_MODEL)
        if not line or "expected" not in line:
            return None
        device, gpu = self.descriptions[target], self.descriptions["h200"]
        at_clock, time = line["expected"] * device["clock"] / gpu["clock"], line["device"]["median"]
        memory = line["dram"] / (device["bandwidth"] * 1e3)
        bound = sms and memory > MEMORY_BOUND * line["expected"]
        return at_clock, time, None if bound else time / at_clock

    def all_expected(self):
        """By case what is expected and measured on the whole GPU and on each slice, where there is anything."""
        cases = {case: [self.expected(case, sms) for sms in (0, *STANDS_FOR)] for case in (*self.cases, *self.quantised_cases)}
        return {case: found for case, found in cases.items() if any(found)}

    def shares(self):
        """All ratios of measured to expected times."""
        return [place[2] for found in self.all_expected().values() for place in found if place and place[2]]

    def predictions(self):
        """What the cost model expects beside what was measured."""
        ratios = self.shares()
        if not ratios:
            return NONE
        heads, rows, bound = ["network"], [], []
        for sms in (0, *STANDS_FOR):
            heads += [f"{sms} SMs: expected" if sms else "whole GPU: expected", "measured", "ratio"]
        for case, found in self.all_expected().items():
            row = [label(case)]
            for at_clock, time, share in (place or (None, None, None) for place in found):
                row += [whole(at_clock), whole(time), ratio(share)]
            rows.append(row)
            bound += [label(case)] if any(place and not place[2] for place in found) else []
        text = f"Geometric mean of {len(ratios)} ratios {statistics.geometric_mean(ratios):.2f}; the least {min(ratios):.2f}, the largest {max(ratios):.2f}."
        if bound:
            text += f" No ratio on a slice where memory takes more than {MEMORY_BOUND:.0%} of the Jetson's expected time: {listed(bound)}."
        return "\n\n".join([self.caption(0, FLOE).removesuffix("*") + " Plans by the cost model.*", table(heads, rows), text])

    def predicted(self, network, target):
        """What `floec inspect` predicts of a network on a target."""
        predicted = self.fact((network, 1), "predicted", target=target, plan=COST_MODEL)
        return "not in this run" if predicted is None else f"{predicted / 1e3:.2f} ms"

    def short(self):
        """README's table: batch 1, plans by the cost model where there are any."""
        orin, cases = STANDS_FOR[16], [case for case in self.cases if case[1] == 1]
        plan = COST_MODEL if self.results.find(program=FLOE, sms=0, plan=COST_MODEL) else TIMING_TABLE
        all_of_it, part = {"target": "h200", "plan": plan}, {"target": orin, "plan": COST_MODEL}
        heads = ["network", "Floe", "PyTorch + cuDNN", "Orin's code, 16 SMs", "PyTorch + cuDNN, 16 SMs"]
        heads += [f"{NAMES[orin]}: floor", f"{NAMES[orin]}: traffic"]
        rows = []
        for case in cases:
            times = [self.time(case, 0, FLOE, **all_of_it), self.time(case, 0, PYTORCH), self.time(case, 16, FLOE, **part)]
            least = []
            if times[2]:
                times.append(self.time(case, 16, PYTORCH))
                least = [self.floor(case, orin), self.traffic(case, orin)]
            row = [case[0], *map(whole, times), *map(at_least, least)]
            rows.append(row + [""] * (len(heads) - len(row)))
        means = []
        for what, sms, wanted in [("On the whole GPU", 0, all_of_it), ("On 16 multiprocessors, with Orin's code", 16, part)]:
            ratios = self.ratios(sms, PYTORCH, cases, **wanted)
            means += [f"- {self.mean(ratios, PYTORCH, what)}"] if ratios else []
        caption = self.caption(0, PYTORCH).removesuffix("*") + f" Batch 1, plans by the {plan}.*"
        return "\n\n".join([caption, table(heads, rows), "\n".join(means)])


NONE = "*Not measured yet.*"
# Share of a network's expected time from which memory decides.
MEMORY_BOUND = 0.35


def version(cudnn):
    """9.19.0 of 91900."""
    return f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}"


def label(case):
    return case[0] if case[1] == 1 else f"{case[0]} at batch {case[1]}"


def losses(ratios):
    """The cases with a ratio below one, in words."""
    return listed(f"{label(case)} ({value:.2f})" for case, value in ratios.items() if value < 1) or "none of them"


def whole(time):
    return "" if time is None else f"{time:.0f}"


def ratio(value):
    return "" if value is None else f"{value:.2f}"


def at_least(time):
    return "" if time is None else f"{time:.0f}" if time >= 9.95 else f"{time:.1f}"
