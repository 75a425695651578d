"""A pool of workers that runs two jobs of each tenant at most at once, in all its processes together.

    python tenant_pool.py < jobs

Each line is a job: its tenant and its name. A job that waits for its tenant's turn is a task and keeps no worker busy, so
a tenant with a thousand jobs delays no other. Its jobs are served in the order in which they came, to whichever process.
Ctrl-C ends the jobs that wait, and waits for those that run.
"""

import asyncio
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import fairlock

client = fairlock.Client(os.environ.get("REDIS_URL"))


def work(tenant: str, job: str, scratch: str) -> None:
    time.sleep(float(os.environ.get("SECONDS_A_JOB", 1)))


async def run(tenant: str, job: str) -> None:
    async with client.semaphore(f"tenants:{tenant}", 2).acquire(label=job) as held:
        # No other job has this slot now, in any process: what is left in the folder is that of a job which is over.
        scratch = f"{tenant}-{held.slot}"
        print(f"{job} begins in {scratch}", flush=True)
        # Not asyncio.to_thread: a task that is cancelled would give the slot away while its thread goes on.
        await held.in_thread(work, tenant, job, scratch)
        held.check()
        print(f"{job} ends in {scratch}", flush=True)


async def main() -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(8))
    await asyncio.gather(*(run(*line.split()) for line in sys.stdin))


if __name__ == "__main__":
    asyncio.run(main())
