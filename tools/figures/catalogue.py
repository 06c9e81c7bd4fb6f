"""The figures that documents name, and where each comes from."""

import importlib.util
import json
import re
import tomllib
from functools import cached_property

from benchmarks import NONE, Benchmarks, listed, table
from quality import Quality

KIB = 1024
# The GPUs whose results and whose record documents state.
GPU, RECORD = "h200", "h200"
# The goal for the soak: p99.9 of its round trip, over the median.
TAIL = 1.5


def module(path):
    """A Python file, loaded under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"figures_{path.stem}", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def older_of(folder, gpu):
    """Files of a folder that hold what the last run on a GPU was made without."""
    return sorted(folder.glob(f"{gpu}-*.json"))


class Catalogue:
    """Figures of one state of the repository. Methods without a leading underscore are names of figures; what follows a name in a
    mark are its arguments. A lack raises LookupError."""

    def __init__(self, root):
        self._root = root
        self._results, self._descriptions = root / "targets/benchmarks", root / "targets/descriptions"

    def figure(self, name, *arguments):
        method = None if name.startswith("_") or name == "figure" else getattr(type(self), name, None)
        if not callable(method):
            raise LookupError("there is no such figure")
        return method(self, *arguments)

    # Benchmarks.

    @cached_property
    def _benchmarks(self):
        return Benchmarks(self._results / f"{GPU}.json", self._descriptions)

    def benchmark(self, name, *arguments):
        """A table of benchmarks.py."""
        tables = {"whole", "compiled", "slice", "hopper_slice", "quantised", "short", "predictions", "predicted"}
        if name not in tables:
            raise LookupError(f"'{name}' is not one of {', '.join(sorted(tables))}")
        text = getattr(self._benchmarks, name)(*arguments)
        if text != NONE:
            return text
        # What the last run left out stands in results of before.
        older = (Benchmarks(path, self._descriptions) for path in older_of(self._results, GPU))
        tables = (getattr(benchmarks, name)(*arguments) for benchmarks in older)
        return next((text for text in tables if text != NONE), NONE)

    def spread(self):
        """Bounds of the times that `floec inspect` predicts, if all measured times keep to them."""
        found = self._constant("tools/floec/src/inspect/prediction.rs", r"SPREAD: \[f64; 2\] = \[([0-9.]+), ([0-9.]+)\]")
        least, most = map(float, found.groups())
        beyond = [share for share in self._benchmarks.shares() if not least <= share <= most]
        if beyond:
            raise LookupError(f"SPREAD in tools/floec/src/inspect/prediction.rs does not hold {listed(f'{share:.2f}' for share in beyond)}")
        return f"{least:g} to {most:g}"

    def target(self, name, field):
        """A number of a target's description, with its unit."""
        return self._quantity(self._benchmarks.descriptions[name][field], field)

    def gpu(self, field):
        """A number of the GPU that was measured, with its unit."""
        return self._quantity(self._benchmarks.devices["h200"][field], field)

    def _quantity(self, value, field):
        units = {
            "bandwidth": "GB/s",
            "f16_tflops": "TFLOP/s",
            "f32_tflops": "TFLOP/s",
            "int8_tops": "TOP/s",
            "clock": "MHz",
            "multiprocessors": "",
        }
        return f"{value / KIB**2:g} MiB" if field == "l2_bytes" else f"{value:,g} {units[field]}".rstrip()

    # Accuracy in f16 and 8 bits.

    def quality(self):
        """What tools/quality measured: a row for each task."""
        return Quality(self._root / "tools/quality/results").text()

    # The record of a GPU.

    @cached_property
    def _record(self):
        return self._read_record(f"{RECORD}.json")

    def _read_record(self, name):
        return json.loads((self._root / "targets/verified" / name).read_text())

    def _record_with(self, part, section=None):
        """The record, or, where a part of it, or a section of one, has not been made again, an older one that has it; none if there is
        none."""
        older = (path.name for path in older_of(self._root / "targets/verified", RECORD))
        records = [self._record, *map(self._read_record, older)]
        has = lambda record: record.get(part) and (section is None or section in record[part])
        return next(filter(has, records), None)

    def record(self, name, *arguments):
        """Something that the record of the GPU holds."""
        return getattr(self, f"_record_{name}")(*arguments)

    def _record_machine(self, record=None):
        run = (record or self._record)["run"]
        driver = re.search(r"\d+\.\d+\.\d+", run["module"])
        commit, *changes = run["commit"].split(" ", 1) if "commit" in run else [""]
        of = " ".join([f"commit {commit[:7]}", *changes]) if commit else f"sources {run['sources'][:8]}"
        made = [
            run["gpu"],
            f"driver {driver.group() if driver else run['driver']}",
            of,
            *([run["date"]] if "date" in run else []),
        ]
        return ", ".join(made)

    def _record_skipped(self):
        """A sentence on what the record was made without, by part."""
        skipped = self._record["run"].get("skipped", [])
        counts = {}
        for name in skipped:
            part, _, one = name.partition("/")
            counts[part] = counts.get(part, 0) + (1 if one else 0)
        parts = listed(f"{count} of `{part}`" if count else f"`{part}`" for part, count in counts.items())
        return f"all but {parts} were made." if parts else "all were made."

    def _record_failures(self):
        """A sentence on the sections that failed, with the first reason of each; kernels have a figure of their own."""
        parts = {part: sections for part, sections in self._record.items() if part not in ("run", "kernels")}
        failed = [
            f"`{part}`, {key}: {section['failures'][0]}"
            for part, sections in parts.items()
            for key, section in sections.items()
            if section.get("failures")
        ]
        return f"{len(failed)} of them failed: {'; '.join(failed)}." if failed else "None of them failed."

    def _record_soak(self):
        """Replays of the soak that differ, and how far the slowest in a thousand are from the median, goal included."""
        record = self._record_with("soak")
        soaks = record["soak"].values()
        replays, different = (sum(soak[name] for soak in soaks) for name in ("replays", "different"))
        tails = [soak["p999"] / soak["median"] for soak in soaks]
        alone = [soak["busy_wait"] / soak["median"] for soak in soaks]
        span = lambda ratios: " to ".join(dict.fromkeys(f"{ratio:.2f}" for ratio in (min(ratios), max(ratios))))
        missed = sum(tail > TAIL for tail in tails)
        verdict = f"missed by {missed} of {len(tails)}" if missed else "met"
        ways = f"{len(tails)} ways" if len(tails) > 1 else "one way"
        return (
            f"of {replays:,} replays that wait in {ways}, {different:,} differ; p99.9 of the round trip is {span(tails)} times"
            f" its median (goal: {TAIL}, {verdict}), that of busy waits as long {span(alone)} times."
        )

    def _record_kernels(self, architecture):
        """Candidates that agreed with their reference kernels, and those that did not; an older record that they are of is named."""
        record = self._record_with("kernels", architecture)
        tallies = record["kernels"][architecture]
        failed = {
            family: len(tally["failures"]) if "failures" in tally else tally["failed"] for family, tally in tallies.items()
        }
        passed = sum(tally["passed"] for tally in tallies.values())
        names = listed(f"{count} of `{family}`" for family, count in failed.items() if count)
        older = "" if record is self._record else f" (in an older record: {self._record_machine(record)})"
        return f"{passed:,} of {passed + sum(failed.values()):,}" + (f" (all but {names})" if names else "") + older

    def _networks(self):
        """Plan's name, target and what the record holds of it."""
        for key, section in self._record["networks"].items():
            plan, target, _ = key.split()
            yield plan, target, section

    def _record_networks(self, target):
        """Plans whose results kept within their bounds; how near the emulator comes is another question."""
        own = lambda failures: [failure for failure in failures if not failure.startswith("emulated:")]
        failures = [own(section["failures"]) for _, of, section in self._networks() if of == target]
        return f"{failures.count([])} of {len(failures)}"

    def _record_emulated(self):
        """Plans whose results on a GPU in software are as near to the GPU's as they should be."""
        sections = [section for _, _, section in self._networks() if "emulated" in section]
        wrong = [any(failure.startswith("emulated:") for failure in section["failures"]) for section in sections]
        return f"{wrong.count(False)} of {len(wrong)}" if wrong else "none yet"

    def _record_identical(self):
        """Plans whose results on a GPU in software have the GPU's bits, every element."""
        emulated = [section["emulated"] for _, _, section in self._networks() if "emulated" in section]
        return str(sum(one["same"] == one["elements"] for one in emulated)) if emulated else "none"

    def _record_exceptions(self):
        """Networks that are held to bounds of their own."""
        bounds = self._root / "tools/conformance/src/bounds.toml"
        if bounds.exists():
            names = [network["name"] for network in tomllib.loads(bounds.read_text())["network"]]
        else:
            names = [
                plan.rsplit("-", 1)[0].removesuffix("-second")
                for plan, _, section in self._networks()
                if section.get("reason")
            ]
        return listed(dict.fromkeys(names)) or "none"

    def _record_suite(self):
        """A sentence on the ONNX backend tests on this GPU, where the record has them."""
        suites = {key.split()[1]: section for key, section in self._record.get("suite", {}).items()}
        counts = [f"{section['passed']:,} of {section['cases']:,} in {precision}" for precision, section in suites.items()]
        return f"On an {self._record['run']['gpu']}, {listed(counts)} pass." if counts else ""

    def _record_heap(self):
        """A sentence on what RUN does to the heap of the process, the driver's calls among them, where the record has it."""
        record = self._record_with("heap")
        if not record:
            return ""
        sections = list(record["heap"].values())
        calls, replays = {}, min(section["replays"] for section in sections)
        # Nearly all of the driver's calls are of one way of waiting, which is the last word of a mode.
        for mode, section in record["heap"].items():
            waiting = mode.split()[-1]
            count = sum(count for functions in section["heap"].values() for count in functions.values())
            calls[waiting] = calls.get(waiting, 0) + count
        blocks, mappings = (sum(section["growth"][what] for section in sections) for what in (0, 1))
        made = listed(f"{count:,} with `{waiting}`" for waiting, count in calls.items())
        left = (
            f"calls of `malloc`, `free` and the like, by way of waiting: {made}; {blocks:,} blocks and {mappings:,} mappings were left"
            if any(calls.values())
            else "no call of an allocating function"
        )
        text = f"*Measured* of the whole process with its driver ({self._record_machine(record)}), {replays:,} replays in each of"
        return f"{text} {len(sections)} modes: {left}."

    def _record_trained(self):
        """Median times of the models of the zoo on the device, in microseconds."""
        zoo = [model["name"] for model in tomllib.loads((self._root / "models/zoo.toml").read_text())["model"]]
        found = {
            plan: section["latency"]["device"]["median"] for plan, _, section in self._networks() if section.get("latency")
        }
        kinds = ["f16", "f32", "orin"]
        rows = [
            [name, *(f"{found[plan]:.0f}" if (plan := f"{name}-{kind}") in found else "" for kind in kinds)] for name in zoo
        ]
        heads = ["model", "f16", "f32", "f16 as compute_87"]
        by_table = any(section.get("timed") for _, _, section in self._networks())
        kind = "plans by a timing table" if by_table else "plans by the cost model"
        caption = f"*Microseconds, medians. {self._record_machine()}; {kind}.*"
        return "\n\n".join([caption, table(heads, [row for row in rows if any(row[1:])])])

    # What runs.

    def suite(self, name):
        """Counts at the head of SUPPORT.md, which `floec suite` writes."""
        text = (self._root / "SUPPORT.md").read_text()
        if name == "inputs":
            found = re.search(
                r"input of the plan \((\d+) cases\).*?\*baked\* \((\d+)\).*?computed everything \((\d+)\)", text, re.DOTALL
            )
            said = "Of the cases that pass, {} take every input at run time, {} have some inputs as constants, and {} are computed when compiling."
            return said.format(*(f"{int(count):,}" for count in found.groups())) if found else ""
        patterns = {
            "cases": r"of (?P<of>\d+) cases (?P<passed>\d+) pass",
            "core": r"Of the (?P<of>\d+) core cases (?P<passed>\d+) pass",
        }
        found = re.search(patterns[name], text)
        if not found:
            raise LookupError("SUPPORT.md does not say it")
        return f"{int(found['passed']):,} of {int(found['of']):,}"

    def architectures(self, *sources):
        """How many networks of these sources pass, where there is a file of results."""
        folder = self._root / "tools/conformance/architectures"
        if not (folder / "results.tsv").exists():
            return "networks"
        results, seen = module(folder / "results.py"), {}
        for line in results.Results(folder / "results.tsv").lines:
            if line["source"] in sources:
                seen.setdefault((line["source"], line["network"]), set()).add(line["status"])
        run = [statuses - set(results.FOREIGN) for statuses in seen.values() if statuses - set(results.FOREIGN)]
        return f"{run.count({results.PASSED}):,} of {len(run):,} networks"

    # Bounds that tests hold the code to.

    def _constant(self, path, pattern):
        found = re.search(pattern, (self._root / path).read_text())
        if not found:
            raise LookupError(f"{path} has no {pattern}")
        return found

    def stack(self, what, machine):
        """Bound of engine/tests/stack.rs in KiB: of the release profile."""
        found = self._constant(
            "engine/tests/stack.rs", rf"const {what}: usize = if AARCH64 {{ (\d+) }} else {{ (\d+) }} \* KIB;"
        )
        return f"{found[['aarch64', 'x86-64'].index(machine) + 1]} KiB"

    def size(self, what):
        """Bound of targets/cross/check on code for aarch64."""
        bounds = {
            "engine": (r'"\$code" -le \$\(\((\d+) \* 1024\)\)', "KiB"),
            "floe": (r'stat -c %s \$binary\)" -le \$\(\((\d+) \* 1024\)\)', "KiB"),
        }
        pattern, unit = bounds[what]
        return f"{self._constant('targets/cross/check', pattern)[1]} {unit}"

    def calls(self):
        """Driver functions of RUN, in all modes that engine/tests/engine/calls.rs records."""
        called = set()
        for line in (self._root / "engine/tests/calls.txt").read_text().splitlines():
            what, separator, names = line.partition(": ")
            if line.startswith(" ") and separator and what.strip() not in ("INIT", "drop"):
                called |= {name.removesuffix("_v2") for name in names.split() if name != "-"}
        return listed(f"`{name}`" for name in sorted(called))

    def plan_format(self):
        """The version of the plan format that the engine reads."""
        return self._constant("engine/src/plan/format.rs", r"pub const VERSION: u32 = (\d+);")[1]

    def timings_format(self):
        """The version of timing tables."""
        return self._constant("tools/timings/src/lib.rs", r'const HEADER: &str = "floe-timings (\d+)";')[1]

    def rust(self):
        """The oldest Rust that builds."""
        return tomllib.loads((self._root / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
