#!/usr/bin/env python3
"""Everything that cargo-mutants thinks of in the parts without I/O, in minutes instead of hours.

cargo-mutants builds the tests anew for each mutant. Here all of them go into one build: a function of which there are
mutants becomes a `match` with an arm for each, a copy of its body with that one change, and a number in the environment
says which arm is taken. What does not compile is taken out, as cargo-mutants would call it unviable. The few that fit
into no switch get a build each. The cases of the same module come first, then all single cases; what they leave goes
through all random worlds.

Fails if one is missed. Arguments pick mutants by what their names contain; what cannot be found is excluded, with the
reason, in `.cargo/mutants.toml`. All verdicts go to `target/mutants/generic.tsv`.
"""

import collections
import concurrent.futures
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TREE = f"{ROOT}/target/mutants/switched"
SWITCH = """
pub(crate) fn mutant() -> usize {
    static ON: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *ON.get_or_init(|| std::env::var("FAIRLOCK_MUTANT").ok().and_then(|on| on.parse().ok()).unwrap_or(usize::MAX))
}
"""
MEMORY = 4 << 30  # Bytes, for loops that allocate.
HUNG = 60  # Seconds of computing; all tests together need 10 on a machine that does nothing else.


def read(path):
    with open(path) as file:
        return file.read()


def offsets(text, span):
    lines = text.splitlines(keepends=True)
    at = lambda place: sum(map(len, lines[: place["line"] - 1])) + place["column"] - 1
    return at(span["start"]), at(span["end"])


def switched(text, mutants):
    """The text with these mutants of its functions behind the switch, and the lines of each."""
    functions = collections.defaultdict(list)
    for number, mutant in mutants:
        functions[offsets(text, mutant["function"]["span"])].append((number, mutant))
    pieces, last = [], 0
    for (start, end), those in sorted(functions.items()):
        # The first brace outside of parentheses opens the body.
        opens, depth = text.index("fn ", start), 0
        while text[opens] != "{" or depth:
            depth += (text[opens] in "([") - (text[opens] in ")]")
            opens += 1
        pieces.append((text[last : opens + 1] + "\nmatch crate::mutant() {\n", None))
        for number, mutant in those:
            first, after = offsets(text, mutant["span"])
            body = text[opens + 1 : first] + f" {mutant['replacement']} " + text[after : end - 1]
            pieces.append((f"{number} => {{{body}}}\n", number))
        pieces.append((f"_ => {{{text[opens + 1 : end - 1]}}}\n}}\n", None))
        last = end - 1
    pieces.append((text[last:], None))
    lines, line = {}, 1
    for piece, number in pieces:
        if number is not None:
            lines[number] = range(line, line + piece.count("\n"))
        line += piece.count("\n")
    return "".join(piece for piece, _ in pieces), lines


def write_tree(mutants, outside=None):
    """The crate without its other tests, with these mutants behind the switch, or this one that fits into none in its place."""
    for folder in ["src", "lua"]:
        shutil.rmtree(f"{TREE}/{folder}", ignore_errors=True)
        shutil.copytree(f"{ROOT}/{folder}", f"{TREE}/{folder}")
    os.makedirs(f"{TREE}/docs", exist_ok=True)
    for file in ["README.md", "docs/crate.md", "Cargo.lock"]:
        shutil.copy(f"{ROOT}/{file}", f"{TREE}/{file}")
    manifest = re.sub(r"^testkit = .*\n", "", read(f"{ROOT}/Cargo.toml"), flags=re.M)
    manifest = re.sub(r"^\[(?:\[bin\]|\[test\]|\[bench\]|workspace)\]\n(?:.+\n)+", "", manifest, flags=re.M)
    texts, lines = {"Cargo.toml": "[workspace]\n" + manifest}, {}
    texts["src/lib.rs"] = read(f"{ROOT}/src/lib.rs") + SWITCH
    for file in {mutant["file"] for _, mutant in mutants}:
        here = [(number, mutant) for number, mutant in mutants if mutant["file"] == file]
        texts[file], where = switched(read(f"{ROOT}/{file}"), here)
        lines |= {number: (file, span) for number, span in where.items()}
    if outside:
        text = read(f"{ROOT}/{outside['file']}")
        first, after = offsets(text, outside["span"])
        texts[outside["file"]] = text[:first] + outside["replacement"] + text[after:]
    for file, text in texts.items():
        with open(f"{TREE}/{file}", "w") as out:
            out.write(text)
    return lines


def build(mutants, outside=None):
    """The tests, and the numbers of the mutants that do not compile."""
    unviable = set()
    while True:
        lines = write_tree([(number, mutant) for number, mutant in mutants if number not in unviable], outside)
        command = ["cargo", "test", "--lib", "--no-run", "--message-format=json"]
        env = dict(os.environ, CARGO_TARGET_DIR=f"{ROOT}/target/mutants/generic")
        ran = subprocess.run(command, cwd=TREE, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        if ran.returncode == 0:
            [tests] = [one["executable"] for one in said if one.get("executable")]
            return tests, unviable
        spans = [
            (span["file_name"], span["line_start"])
            for one in said
            if one["reason"] == "compiler-message" and one["message"]["level"] == "error"
            for span in one["message"]["spans"]
            if span["is_primary"]
        ]
        found = {number for number, (file, span) in lines.items() if any(f == file and l in span for f, l in spans)}
        if outside and not found:
            return None, unviable
        if not found:
            sys.exit(f"what is without mutants does not compile:\n{ran.stderr}")
        unviable |= found


def fails(tests, number, arguments):
    """Whether the tests fail: None if they hang."""
    env = dict(os.environ, FAIRLOCK_MUTANT=str(number), FAIRLOCK_UNSHRUNK="1")
    env.pop("FAIRLOCK_CASES", None)
    command = [tests, "--skip=every_state_of", *arguments]

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (HUNG, HUNG))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    status = subprocess.run(command, cwd=TREE, env=env, capture_output=True, preexec_fn=limit).returncode
    return None if status in [-signal.SIGXCPU, -signal.SIGKILL] else status != 0


def verdict(tests, number, mutant):
    module = mutant["file"].removeprefix("src/").removesuffix(".rs").removesuffix("/mod").replace("/", "::")
    # What machines and routes decide is tested apart from them.
    for cases in [["decisions", f"{module}::"], ["--skip=properties"]]:
        single = fails(tests, number, cases)
        if single is not False:
            return "caught" if single else "timed out"
    worlds = fails(tests, number, ["properties"])
    return "missed" if worlds is False else "caught by random worlds only" if worlds else "timed out"


def fits_a_switch(mutant):
    """Whether it is in a function whose arms can all have one type."""
    return mutant["function"] and "impl " not in mutant["function"]["return_type"]


def main():
    listed = subprocess.run(["cargo", "mutants", "--list", "--json"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    names = sys.argv[1:] or [""]
    mutants = [one for one in json.loads(listed.stdout) if any(name in one["name"] for name in names)]
    within = [(number, mutant) for number, mutant in enumerate(mutants) if fits_a_switch(mutant)]
    tests, unviable = build(within)
    if fails(tests, "none", []) is not False:
        sys.exit("the tests fail without any mutant")
    verdicts = {number: "unviable" for number in unviable}
    viable = [(number, mutant) for number, mutant in within if number not in unviable]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as several:
        judged = several.map(lambda one: verdict(tests, *one), viable)
        verdicts |= {number: outcome for (number, _), outcome in zip(viable, judged)}
    for number, mutant in enumerate(mutants):
        if not fits_a_switch(mutant):
            tests, _ = build([], mutant)
            verdicts[number] = verdict(tests, number, mutant) if tests else "unviable"
    with open(f"{ROOT}/target/mutants/generic.tsv", "w") as out:
        out.writelines(f"{verdicts[number]}\t{mutant['name']}\n" for number, mutant in enumerate(mutants))
    for number, mutant in enumerate(mutants):
        if verdicts[number] not in ["caught", "unviable"]:
            print(f"{verdicts[number]}: {mutant['name']}")
    counts = collections.Counter(verdicts.values())
    print(f"{len(mutants)} mutants:", ", ".join(f"{count} {what}" for what, count in counts.items()))
    sys.exit("missed" in verdicts.values())


if __name__ == "__main__":
    main()
