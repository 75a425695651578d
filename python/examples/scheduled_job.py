"""A job of APScheduler that runs on one of several machines at a time: the others skip this turn.

    python scheduled_job.py
"""

import os

import fairlock
from apscheduler.schedulers.blocking import BlockingScheduler

client = fairlock.Client(os.environ.get("REDIS_URL"))


def nightly():
    try:
        with client.lock("reports:nightly").try_acquire(label="nightly") as held:
            print(f"running, token {held.token}", flush=True)
    except fairlock.Busy as busy:
        print(f"skipped: {busy}", flush=True)


if __name__ == "__main__":
    scheduler = BlockingScheduler()
    scheduler.add_job(nightly, "interval", seconds=float(os.environ.get("EVERY", 3600)))
    scheduler.start()
