"""A Celery task that waits its turn, in `prefork` workers.

    celery -A celery_tasks worker --concurrency 4

The client is made once, before Celery forks its workers: it connects anew in each of them. A soft time limit interrupts
the wait, which leaves the queue. A hard one, and a revoke with `terminate=True`, kill the worker: its place in the queue
is passed over when its liveness is over, and what it holds is free when its lease ends. `acks_late` lets another worker
repeat the task then, and the token lets a store refuse what the first one still writes.
"""

import os
import time

import fairlock
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

url = os.environ.get("REDIS_URL", "redis://localhost")
app = Celery("reports", broker=url, backend=url)
app.conf.update(task_acks_late=True, broker_connection_retry_on_startup=True)
# What a broker calls unix sockets is not a URL for others.
client = fairlock.Client(url.replace("redis+socket://", "unix://"))


@app.task(bind=True, soft_time_limit=60)
def rebuild(self, report: str, seconds: float = 0.1):
    try:
        # The task's id is what others see in `client.lock(...).inspect()`.
        with client.lock(f"reports:{report}", lease=10).acquire(timeout=300, label=f"task {self.request.id}") as held:
            time.sleep(seconds)
            held.check()
            return held.token
    except fairlock.Timeout as timeout:
        raise self.retry(countdown=10, exc=timeout)
    except SoftTimeLimitExceeded:
        return None  # the queue was left, or the lock released
