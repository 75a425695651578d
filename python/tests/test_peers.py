"""The published test suites of redis-py and python-redis-lock, against the drop-in classes.

They run if the environment has PEERS=1. The suites come from the source distributions of the versions in
requirements-test.txt. Every test passes, except those that are listed here, each with its reason. A listed one that
passes is an error, too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Dict, Iterable, List

import pytest
from kit import Kit

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent
KEY = "reads or writes the key that is the other lock; fairlock has other keys"
POLLS = "replaces the clock in redis-py's module and counts the polls; fairlock does not poll"

REDIS_PY = {
    "test_lock": KEY,
    "test_lock_token": KEY,
    "test_lock_token_thread_local_false": KEY,
    "test_timeout": KEY,
    "test_float_timeout": KEY,
    "test_blocking_timeout": POLLS,
    "test_context_manager": KEY,
    "test_context_manager_raises_when_locked_not_acquired": KEY,
    "test_releasing_lock_no_longer_owned_raises_error": KEY,
    "test_extend_lock": KEY,
    "test_extend_lock_replace_ttl": KEY,
    "test_extend_lock_float": KEY,
    "test_extending_lock_no_longer_owned_raises_error": KEY,
    "test_reacquire_lock": KEY,
    "test_reacquiring_lock_no_longer_owned_raises_error": KEY,
}
REDIS_PY_SYNC = {
    "test_context_manager_blocking_timeout": POLLS,
    "test_context_manager_reacquiring_lock_no_longer_owned_raises_error": KEY,
    "test_lock_error_gives_correct_lock_name": KEY,
}

RENEWAL = "looks into the renewing thread of python-redis-lock; fairlock's client renews without one"
ENDS = "holds a lock that has no timeout in a process that ends; fairlock's lock ends with its process"
PYTHON_REDIS_LOCK = {
    "test_upgrade": KEY,
    "test_extend": KEY,
    "test_extend_lock_default_expire": KEY,
    "test_extend_another_instance": KEY,
    "test_extend_another_instance_different_id_fail": KEY,
    "test_token": KEY,
    "test_release_from_nonblocking_leaving_garbage": KEY,
    "test_simple_auto_renewal": RENEWAL,
    "test_no_auto_renewal": RENEWAL,
    "test_auto_renewal": RENEWAL,
    "test_auto_renewal_stops_after_gc": RENEWAL,
    "test_no_overlap2": ENDS,
}
# Not run: the variants under eventlet, where fairlock refuses to work.


def source(project: str) -> Path:
    """The folder with the source distribution of the version that is installed."""
    folder = Path(os.environ.get("FAIRLOCK_PEERS", HERE.parent / "target" / "peers"))
    version = subprocess.run(
        [sys.executable, "-c", f"from importlib.metadata import version; print(version({project!r}))"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    unpacked = folder / f"{project.replace('-', '_')}-{version}"
    if not unpacked.exists():
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*download, "--dest", str(folder), f"{project}=={version}"], check=True)
        with tarfile.open(f"{unpacked}.tar.gz") as archive:
            archive.extractall(folder)
    return unpacked


def fails_as_listed(
    listed: Iterable[str], folder: Path, report: Path, arguments: List[str], environment: Dict[str, str]
) -> None:
    """Runs the tests. Shows the output of those that fail and are not listed."""
    command = [sys.executable, "-m", "pytest", "-p", "fairlock_peers", "-W", "ignore", "-q", "--timeout", "30"]
    command += ["-o", "junit_logging=all"]
    path = {"PYTHONPATH": str(HERE / "peers")}
    run = subprocess.run(
        [*command, f"--junitxml={report}", *arguments], cwd=folder, env={**os.environ, **path, **environment},
        capture_output=True, text=True,
    )  # fmt: skip
    assert report.exists(), run.stdout + run.stderr
    cases = list(ElementTree.parse(report).iter("testcase"))
    assert len(cases) > 20, run.stdout
    # All variants of a test are of one kind.
    variant = re.compile(r"\[.*")
    failed = set[str]()
    for case in cases:
        whole = case.get("name", "")
        name = variant.sub("", whole)
        for trouble in (*case.findall("failure"), *case.findall("error")):
            failed.add(name)
            if name not in listed:
                printed = [output.text for output in (*case.findall("system-out"), *case.findall("system-err"))]
                print(f"---- {whole} ----", trouble.text, *printed, sep="\n")
    assert failed == set(listed)


@pytest.mark.parametrize(
    ("tests", "listed"),
    [("tests/test_lock.py", {**REDIS_PY, **REDIS_PY_SYNC}), ("tests/test_asyncio/test_lock.py", REDIS_PY)],
)
def test_redis_py(tests: str, listed: Dict[str, str], kit: Kit, tmp_path: Path) -> None:
    arguments = [tests, "--redis-url", f"redis://127.0.0.1:{kit.server(tcp=True).port}/0"]
    fails_as_listed(listed, source("redis"), tmp_path / "report.xml", arguments, {})


def test_python_redis_lock(tmp_path: Path) -> None:
    folder, binary = source("python-redis-lock"), os.environ.get("FAIRLOCK_REDIS_SERVER", "redis-server")
    # Its tests start a `redis-server`.
    (tmp_path / "redis-server").symlink_to(shutil.which(binary) or binary)
    arguments = ["-c", os.devnull, "--rootdir", ".", "tests/test_redis_lock.py"]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "REDIS_LOCK_TEST_TIMEOUT": "10"}
    fails_as_listed(PYTHON_REDIS_LOCK, folder, tmp_path / "report.xml", arguments, environment)
