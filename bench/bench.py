"""Measures what YARP promises; `scripts/bench` names the parts, all of them by default.

Each part is a module beside this one with `run(out_dir) -> list[str]`: it writes its raw timings
as JSON lines to `out_dir` and returns summary rows.
"""

import importlib
import os
import sys

PARTS = ("archive", "run", "hook", "recover", "reduce", "receipts", "index", "dataset")
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "out")


def main(words):
    names, cases = [], []
    rest = iter(words)
    for word in rest:
        if word == "--cases":
            cases.append(next(rest, ""))
        else:
            names.append(word)
    missing = [folder for folder in cases if not os.path.isdir(folder)]
    if missing:
        print(f"bench: --cases {missing[0]}: no such folder", file=sys.stderr)
        return 64
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"bench: no part {unknown[0]}; there are {' '.join(PARTS)}", file=sys.stderr)
        return 64
    os.makedirs(OUT, exist_ok=True)
    for name in names or PARTS:
        more = {"cases": cases} if name == "reduce" else {}
        for row in importlib.import_module(name).run(OUT, **more):
            print(f"{name}: {row}", flush=True)
    print(f"raw timings: {OUT}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
