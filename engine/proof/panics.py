"""Lists the panics left in a library by source file, from its machine code and line tables; none may be the engine's.

    panics.py LIBRARY [PREFIX OF BINUTILS]
"""

import collections
import re
import subprocess
import sys

library, prefix = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
# What stands between a check that failed and the panic handler.
PANIC = re.compile(r"core::panicking|_failed\b|len_mismatch|_fail\b|slice_index|floe_panic")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
BRANCH = re.compile(r"^\s*([0-9a-f]+):\s+(?:call|jmp|b|bl)\s+[0-9a-f]+ <(.*)>$")


def sites():
    """Addresses of calls and jumps into the machinery of panics from outside it."""
    command = [prefix + "objdump", "-d", "-C", "--no-show-raw-insn", library]
    caller = ""
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if match := FUNCTION.match(line):
            caller = match[1]
        elif (match := BRANCH.match(line)) and PANIC.search(match[2]) and not PANIC.search(caller):
            yield match[1]


def origins(addresses):
    """The innermost source file of this project or, where there is none, of a dependency, for each address."""
    command = [prefix + "addr2line", "-e", library, "-i", "-a", *addresses]
    frames = []
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() + ["0x"]:
        if not line.startswith("0x"):
            frames.append(line.rsplit(":", 1)[0])
        elif frames:
            own = [re.search(r"(?:engine|kernels)/(?:proof/)?src/.*", frame) for frame in frames if "/registry/" not in frame]
            own = [match[0] for match in own if match]
            crates = [match[1] for frame in frames if (match := re.search(r"/registry/src/[^/]*/([^/]*)/", frame))]
            yield own[0] if own else crates[0] if crates else frames[-1]
            frames = []


addresses = list(sites())
files = collections.Counter(origins(addresses)) if addresses else {}
files.pop("engine/proof/src/lib.rs", None)
folders = collections.Counter()
for file, count in files.items():
    folders[re.sub(r"(kernels/src/[^/]*).*", r"\1", file)] += count
print(f"{len(addresses)} places where a check of the compiler's could panic, by origin:")
for folder, count in sorted(folders.items(), key=lambda item: (-item[1], item[0])):
    print(f"{count:6} {folder}")
# signature.rs calls the arithmetic of curves of a dependency.
engine = [file for file in files if file.startswith("engine/src") and file != "engine/src/plan/signature.rs"]
if not addresses or engine:
    sys.exit(f"panics of the engine itself: {engine}" if engine else "no panic found at all: this script is out of date")
