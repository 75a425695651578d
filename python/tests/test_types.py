"""Checkers of types know each option: what is wrong is an error in the editor, and what is right is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import List

PROGRAM = """\
import datetime
import fairlock
import fairlock.testing
from typing import Any, Optional

client = fairlock.connect("redis://h", prefix="p", tls=True, credentials=lambda: (None, "password", 900))
lock = client.lock("lock", lease=datetime.timedelta(minutes=1), max_waiting=3)
mutex = client.keyed_mutex("users", timeout=3, lease=30, label="job")
gpus: fairlock.Lock = client.semaphore("gpu", 4, lease=30, label="job")
index: fairlock.RwLock = client.rw_lock("index", lease=30, label="job")

def function(number: int) -> str: ...
async def coroutine(number: int) -> str: ...

with client.lock_all(["a", gpus, index.reader]) as both:
    both.slot_of["gpu"] + both.tokens["a"]
fairlock.held().slot + fairlock.held().token
fairlock.held().downgrade()
lost: Optional[fairlock.LockLost] = fairlock.held().lost.wait(3)
index.break_lease(index.inspect().wait().holders[0].token, force=index.is_locked().wait())

a: str = client.locked("lock", timeout=3, lease=30, label="job", on_lost="interrupt")(function)(7)
b: str = client.locked(function)(7)
b = client.locked("lock", slots=4)(function)(7)
b = client.locked(gpus, timeout=3)(function)(7)
b = client.locked(index.reader)(function)(7)
with index.write(3, label="job") as writer, index.reader.acquire(), index.try_read(timeout=3):
    writer.downgrade()
    writer.slot + client.lock("lock", slots=4).inspect().wait().holders[0].slots
async def main() -> None:
    c: str = await client.locked(index.writer)(coroutine)(7)
    await fairlock.aheld().downgrade()
    lost = await fairlock.aheld().lost.wait()
    c = await fairlock.aheld().in_thread(function, 7)
    await fairlock.aheld().in_thread(function, "7")  # wrong
    fairlock.held().lost.wait()[0]  # wrong
    async with lock.acquire(on_lost="cancel") as d, mutex.locked(7, timeout=3) as e:
        f: int = d.token + e.token
    async with gpus.acquire() as g, index.read(timeout=3, on_lost="cancel") as h:
        await h.downgrade()
        f = g.slot
        h.downgrade()[0]  # wrong
    await fairlock.aconnect("redis://h", label="me")
    await fairlock.aconnect("redis://h", labl="me")  # wrong
    await lock.acquire(on_lost="cansel")  # wrong

fairlock.connect("redis://h", passwort="y")  # wrong
fairlock.connect("redis://h", password=7)  # wrong
fairlock.Client("redis://h", tsl=True)  # wrong
fairlock.testing.LockService().client(perfix="p")  # wrong
client.lock("lock", leas=3)  # wrong
client.keyed_mutex("users", leas=3)  # wrong
client.keyed_mutex("users", lease="3")  # wrong
client.locked("lock", leese=3)  # wrong
client.locked("lock", slots="4")  # wrong
client.semaphore("gpu")  # wrong
client.semaphore("gpu", "4")  # wrong
client.semaphore("gpu", 4, leas=3)  # wrong
client.rw_lock("index", slots=4)  # wrong
client.keyed_mutex("users", slots=4)  # wrong
index.acquire()  # wrong
client.lock_all(["a", index])  # wrong
fairlock.held("gpu")  # wrong
client.locked(index)  # wrong
client.locked(7)  # wrong
index.read(on_lost="exit")  # wrong
index.try_write(timout=3)  # wrong
client.locked("lock", on_lost="cansel")  # wrong
client.locked("lock", timeout=3)(function)("7")  # wrong
mutex.locked(7, timout=3)  # wrong
lock.try_acquire(on_lost="exit")  # wrong
lock.enqueue(on_lost="exit")  # wrong
lock.acquire(blocking=False)  # wrong
lock.release()  # wrong
lock.locked()  # wrong
index.acquire_read()  # wrong
with lock: pass  # wrong
with index.reader: pass  # wrong
async def task() -> None:
    async with gpus: pass  # wrong

# mypy takes what comes after one of these for code that never runs, and says so with --warn-unreachable only.
def truth() -> None:
    if lock.acquire(timeout=1): pass  # wrong to pyright
def more_truth() -> None:
    if not gpus.try_acquire(): return  # wrong to pyright
def still_more() -> None:
    while lock.is_locked(): pass  # wrong to pyright
"""


def wrong(*marks: str) -> List[int]:
    return [number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith(marks)]


def lines_with_errors(folder: Path, *checker: str, program: str = PROGRAM) -> List[int]:
    (folder / "program.py").write_text(program)
    run = subprocess.run([sys.executable, "-m", *checker, "program.py"], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    if checker[0] == "mypy":
        return sorted({int(line.split(":")[1]) for line in run.stdout.splitlines() if ": error:" in line})
    found = json.loads(run.stdout)["generalDiagnostics"]
    return sorted({one["range"]["start"]["line"] + 1 for one in found if one["severity"] == "error"})


def test_mypy_finds_what_is_wrong(tmp_path: Path) -> None:
    assert lines_with_errors(tmp_path, "mypy", "--strict", "--disable-error-code=empty-body") == wrong("# wrong")


def test_pyright_finds_what_is_wrong(tmp_path: Path) -> None:
    assert lines_with_errors(tmp_path, "pyright", "--outputjson", "--pythonpath", sys.executable) == wrong(
        "# wrong", "# wrong to pyright"
    )


#: What only warns when it runs, as README.md lists it, and who finds it before: mypy, pyright, or both.
WARNS = """\
import fairlock
client = fairlock.connect("redis://h")
lock = client.lock("lock")
lock.acquire()  # mypy pyright
lock.acquire().wait()  # pyright
if lock.acquire().wait(): pass  # mypy
token = lock.acquire().wait().token
lock.acquire().wait().check()
got = lock.acquire(timeout=1)
if got is False: pass  # mypy pyright
async def main() -> None:
    lock.acquire()  # mypy pyright
    await lock.acquire()  # pyright
    if await lock.acquire(): pass  # mypy
"""


def found(checker: str) -> List[int]:
    return [number for number, line in enumerate(WARNS.splitlines(), 1) if checker in line.partition("#")[2]]


def test_checkers_find_what_only_warns(tmp_path: Path) -> None:
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "reportUnusedCallResult": true}')
    mypy = ["mypy", "--strict", "--enable-error-code=unused-awaitable", "--enable-error-code=truthy-bool"]
    assert lines_with_errors(tmp_path, *mypy, program=WARNS) == found("mypy")
    pyright = ["pyright", "--outputjson", "--pythonpath", sys.executable]
    assert lines_with_errors(tmp_path, *pyright, program=WARNS) == found("pyright")
