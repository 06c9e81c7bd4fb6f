"""Figures in documents come from results files, records and code of this repository; none is typed.

A document holds `<!-- figure NAME ARGUMENT… -->` and, up to `<!-- end -->`, the figure: a number, a phrase or a whole table.
`catalogue.py` lists the names. Numbers with units outside of such marks are reported too; `documents.py` has the exceptions.

usage: python3 tools/figures check    names document, line, expected and found; exit status 1 where they differ
       python3 tools/figures write    puts today's figures in
"""

import argparse
import pathlib
import sys

from documents import process

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "write"])
    found = process(ROOT, parser.parse_args().what == "write")
    for line in found:
        print(line)
    if found:
        print("`python3 tools/figures write` puts in what the results files and records hold", file=sys.stderr)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
