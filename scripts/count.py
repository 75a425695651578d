#!/usr/bin/env python3
"""Counts how much there is to read: code, Lua, pages, tests, dependencies, public names, circles of imports.

`scripts/count.py` counts the files that git tracks, `scripts/count.py REV` those of a commit, and
`scripts/count.py REV REV` compares two. A figure above its bound is marked, and what makes it up is listed. CI does
not run this: the bounds are aims.
"""

import io
import os
import re
import subprocess
import sys
import tarfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TEST_ITEM = re.compile(r"#\[cfg\((?:all\()?test\b[^\n]*\]\s*(?:#\[[^\n]*\]\s*)*")
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<raw>b?r(?P<hash>\#*)".*?"(?P=hash))"""
    r"""|(?P<text>b?"(?:\\.|[^"\\])*")|(?P<char>b?'(?:\\[^\n]{1,8}?|[^'\\\n])')""",
    re.S,
)


def git(*args):
    return subprocess.run(["git", "-C", ROOT, *args], check=True, capture_output=True).stdout


def tree(revision):
    """The text of each file, by its path."""
    if revision is None:
        paths = git("ls-files").decode().split("\n")
        pairs = ((path, f"{ROOT}/{path}") for path in paths)
        raw = {path: open(file, "rb").read() for path, file in pairs if os.path.isfile(file)}
    else:
        archive = tarfile.open(fileobj=io.BytesIO(git("archive", revision)))
        raw = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
    return {path: data.decode(errors="replace") for path, data in raw.items()}


def without_comments(text):
    """The text, and a copy of the same length whose strings are blank, so that its braces match."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    code = TOKEN.sub(lambda match: blank(match) if match["comment"] else match.group(), text)
    return code, TOKEN.sub(blank, text)


def without_tests(text):
    """Without comments and without what `cfg(test)` is written before; and the files that it names as modules."""
    code, masked = without_comments(text)
    modules = set()
    while found := TEST_ITEM.search(masked):
        start, depth = found.start(), 0
        is_item = re.match(r"(pub(\([^)]*\))? )?(fn|impl|mod|use|struct|enum|const|type|let)\b", masked[found.end() :])
        stops = ";}" if is_item else ";},"
        for end in range(found.end(), len(masked)):
            depth += (masked[end] in "{([") - (masked[end] in "})]")
            if depth < 0 or (depth == 0 and masked[end] in stops):
                break
        module = re.match(r"(?:pub(?:\(\w+\))? )?mod (\w+);", masked[found.end() :])
        modules |= {module[1]} if module else set()
        end += depth >= 0
        code, masked = code[:start] + code[end:], masked[:start] + masked[end:]
    return code, modules


def library(files):
    """The code of the library, that of its feature `testing`, and the paths in `src` that only tests compile."""
    code, tests = {}, set()
    for path, text in files.items():
        if re.fullmatch(r"src/(?!bin/).*\.rs", path):
            code[path], modules = without_tests(text)
            folder = re.sub(r"(mod|lib)?\.rs$", "", path).rstrip("/")
            tests |= {f"{folder}/{module}" for module in modules}
    tests = {path for path in code if any(path == f"{test}.rs" or path.startswith(f"{test}/") for test in tests)}
    code = {path: text for path, text in code.items() if path not in tests}
    testing = {path: code.pop(path) for path in list(code) if path.startswith("src/testing/")}
    return code, testing, tests


def filled(text):
    return [line for line in text.split("\n") if line.strip()]


def lines(files, pattern):
    return {path: text.count("\n") for path, text in files.items() if re.fullmatch(pattern, path)}


def expand(prefix, branch):
    """`a::{b, c as d}` stands for `a::b` and `a::c`; with the names under which they are used."""
    start, brace, rest = branch.strip().partition("{")
    if not brace:
        path, _, name = (prefix + start).partition(" as ")
        path = path.removesuffix("::self")
        return [(path, name or path.split("::")[-1])]
    parts, depth = [""], 0
    for char in rest.rsplit("}", 1)[0]:
        depth += (char == "{") - (char == "}")
        parts = [*parts, ""] if char == "," and depth == 0 else [*parts[:-1], parts[-1] + char]
    return [found for part in parts if part.strip() for found in expand(prefix + start, part)]


def circles(code):
    """The groups of files that import each other, the largest first. A name counts where it is defined, not where a
    module passes it on; and what a file takes from the module that it is part of does not count."""
    modules = {re.sub(r"(/mod)?\.rs$", "", path).replace("/", "::")[5:]: text for path, text in code.items()}
    modules = {module: re.sub(r"\bpub\([^)]*\)", "pub", text) for module, text in modules.items()}
    use = re.compile(r"^(?:pub )?use ([^;]+);", re.M)
    uses = {
        module: [found for used in use.findall(text) for found in expand("", used)] for module, text in modules.items()
    }
    passed_on = {module: {name: path for path, name in found} for module, found in uses.items()}

    def target(module, path, hops=8):
        parts = path.split("::")
        base = [] if parts[0] == "crate" else module.split("::")
        while parts and parts[0] in ("crate", "self", "super"):
            base = base[:-1] if parts.pop(0) == "super" and base else base
        parts = base + parts
        prefixes = ("::".join(parts[:end]) for end in range(len(parts), 0, -1))
        to = next((prefix for prefix in prefixes if prefix in modules), None)
        rest = parts[len(to.split("::")) :] if to else []
        if to and to != module and rest and rest[0] in passed_on[to] and hops:
            return target(to, "::".join([passed_on[to][rest[0]], *rest[1:]]), hops - 1) or to
        return to

    def reached(start):
        seen, todo = set(), [start]
        while todo:
            new = graph[todo.pop()] - seen
            seen |= new
            todo += new
        return seen

    graph = {}
    for module, text in modules.items():
        paths = [path for path, _ in uses[module]] + re.findall(r"\b(?:crate|super)::[\w:]+", use.sub("", text))
        named = {target(module, path) for path in paths} - {None, module, "lib"}
        graph[module] = {to for to in named if not module.startswith(f"{to}::")}
    reach = {module: reached(module) for module in graph}
    groups = {frozenset(other for other in reach[module] if module in reach[other]) for module in graph}
    return sorted((sorted(group) for group in groups if len(group) > 1), key=len, reverse=True)


def count(files):
    """Rows of name, figure, bound, and what makes the figure up."""
    code, testing, only_tests = library(files)
    lua = {path: text for path, text in files.items() if re.fullmatch(r"lua/(lib/)?\w+\.lua", path)}
    statements = {path: filled(re.sub(r"--[^\n]*", "", text)) for path, text in lua.items()}
    columns = [(path, len(line)) for path, text in lua.items() for line in text.split("\n")]
    wide = [f"{path}: {number} columns" for path, number in columns if number > 120]
    pages = lines(files, r"README\.md|docs/(?!track-record|runs|releasing|crate|coming-from-ci|testing|conformance)[\w-]+\.md")
    judge = r"(tests/histories/conformance/.*|testkit/src/crew/driven)\.rs"
    kit = lines(files, rf"(?!{judge})(tests|testkit|cli/tests)/.*\.rs")
    unit = {path: files[path].count("\n") for path in only_tests}
    unit |= lines(files, r"cli/src/(.*/)?tests(/.*)?\.rs")
    lists = lines(files, r"tests/mutants/\w+\.txt")
    manifest = files["Cargo.toml"].split("\n[")
    sections = [part for part in manifest if re.match(r"(target\..*\.)?dependencies\]", part)]
    needed = sorted({name for part in sections for name in re.findall(r"^([\w-]+) *=", part, re.M)})
    long = lines(files, r"(?!lua/rendered/).*\.(rs|lua|py|sh)")
    long = [f"{path}: {number}" for path, number in long.items() if number > 400]
    public = files.get("docs/public-api.txt", "").split("\n")
    kind = re.compile(r"(?:#\[\S+\] )?pub (?:struct|enum|trait|type|macro) fairlock::(\w+!?)(?!\w|::)")
    front = sorted({found[1] for line in public if (found := kind.match(line))})
    futures = [line for line in public if "impl " in line and "Future" in line and " fn " in line]
    futures = [line for line in futures if not re.search(r"::(\w+_)?(run|call)(_\w+)?[<(]", line)]
    rings = circles(code)
    largest = lambda figures: [f"{path}: {number}" for path, number in sorted(figures.items(), key=lambda row: -row[1])]
    return [
        ("code of the library", sum(len(filled(text)) for text in code.values()), 11_200, []),
        # The reference model of the scripts, and the service on top of it. Programs that are no tests do not build it.
        ("fairlock::testing, an optional feature", sum(len(filled(text)) for text in testing.values()), None, []),
        ("Lua by hand, without comments", sum(map(len, statements.values())), 480, []),
        ("its lines of more than 120 columns", len(wide), 0, wide),
        # Nor the pages of the release, of the crate, and for people who come from CI.
        ("README and docs, without track record and runs", sum(pages.values()), 2_800, largest(pages)),
        ("tests, kit, tests of the command line and of src", sum(kit.values()) + sum(unit.values()), 40_886, []),
        # `make conformance`, which people run who write a client.
        ("the judge of other clients", sum(lines(files, judge).values()), None, []),
        ("lists of mutants", sum(lists.values()), None, []),
        ("dependencies of the library", len(needed), 20, needed),
        ("files above 400 lines", len(long), 0, long),
        ("public types and macros on the front page", len(front), 24, front),
        ("`impl Future` in public signatures, but for jobs", len(futures), 0, futures),
        ("files in the largest circle of imports", max(map(len, rings), default=0), 9, list(map(" ".join, rings))),
    ]


def main():
    revisions = sys.argv[1:] or [None]
    tables = [count(tree(revision)) for revision in revisions]
    print(f"{'':52}" + "".join(f"{revision or 'now':>10}" for revision in revisions) + f"{'at most':>10}")
    for rows in zip(*tables):
        name, figure, bound, _ = rows[-1]
        bound = "" if bound is None else f"{bound:,}"
        over = "  !" if bound and figure > rows[-1][2] else ""
        print(f"{name:52}" + "".join(f"{row[1]:10,}" for row in rows) + f"{bound:>10}{over}")
    for name, figure, bound, parts in tables[-1]:
        if bound is not None and figure > bound and parts:
            print(f"\n{name}:", *parts, sep="\n  ")


if __name__ == "__main__":
    main()
