"""A pool of workers that runs two jobs of each tenant at most at once, in all its processes together.

    python tenant_pool.py < jobs

Each line is a job: its tenant and its name. A job that waits for its tenant's turn is a task and keeps no worker busy, so
a tenant with a thousand jobs delays no other. Its jobs are served in the order in which they came, to whichever process.
"""

import asyncio
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import fairlock

client = fairlock.Client(os.environ.get("REDIS_URL"))
workers = ThreadPoolExecutor(8)


def work(tenant: str, job: str, scratch: str) -> None:
    time.sleep(float(os.environ.get("SECONDS_A_JOB", 1)))


async def run(tenant: str, job: str) -> None:
    async with client.semaphore(f"tenants:{tenant}", 2).acquire(label=job) as held:
        # No other job has this slot now, in any process: what is left in the folder is that of a job which is over.
        scratch = f"{tenant}-{held.slot}"
        print(f"{job} begins in {scratch}", flush=True)
        await asyncio.get_running_loop().run_in_executor(workers, work, tenant, job, scratch)
        held.check()
        print(f"{job} ends in {scratch}", flush=True)


async def main() -> None:
    await asyncio.gather(*(run(*line.split()) for line in sys.stdin))


if __name__ == "__main__":
    asyncio.run(main())
