#!/usr/bin/env python3
"""Lines of each top folder: code, comments, prose. `scripts/count.py REV` shows those of a commit in brackets.

All that git tracks counts, but for empty lines, pictures, and the files that lock dependencies. There are no bounds:
whoever lets a folder grow by more than a tenth says why in the commit message.
"""

import collections
import os
import re
import subprocess
import sys

COMMENT = {".rs": "//", ".lua": "--", ".java": "//", ".go": "//", ".c": "//", ".py": "#", ".sh": "#", ".toml": "#", ".yaml": "#"}


def count(revision):
    git = lambda *words: subprocess.run(["git", *words], check=True, capture_output=True, text=True, errors="replace")
    rows = collections.defaultdict(collections.Counter)
    # With the name of its file before each line that is not empty.
    for line in git("grep", "-I", "--full-name", r"[^[:space:]]", *revision, "--", ":/").stdout.split("\n")[:-1]:
        path, text = line[len("".join(revision)) + bool(revision) :].split(":", 1)
        kind = os.path.splitext(path)[1]
        if kind == ".svg" or re.search(r"(\.lock|go\.sum|package-lock\.json)$", path):
            continue
        is_comment = text.strip().startswith(COMMENT.get(kind, "#"))
        column = "prose" if kind == ".md" else "comments" if is_comment else "code"
        rows[path.partition("/")[0] if "/" in path else "(top)"][column] += 1
    return rows


if __name__ == "__main__":
    now, then = count([]), count(sys.argv[1:]) if sys.argv[1:] else None
    cell = lambda rows, folder, column: sum(row[column] for name, row in rows.items() if folder in (name, "in all"))
    print(f"{'':10}" + "".join(f"{column:>20}" for column in ("code", "comments", "prose")))
    for folder in [*sorted(set(now) | set(then or [])), "in all"]:
        figures = [(cell(now, folder, c), then and cell(then, folder, c)) for c in ("code", "comments", "prose")]
        print(f"{folder:10}" + "".join(f"{new:>10,}" + (f" ({old:,})" if then else "").ljust(10) for new, old in figures))
