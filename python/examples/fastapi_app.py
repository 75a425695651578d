"""An endpoint of which one at a time runs for each user, over all servers and workers.

    uvicorn fastapi_app:app --workers 4

A request leaves the queue when its client hangs up, when its time is over, and when the server is told to end. By itself
uvicorn cancels no request: it goes on with those of clients that have hung up, and at its end it waits for all requests
before it ends the lifespan.
"""

import asyncio
import os
import signal
import threading
from contextlib import asynccontextmanager

import fairlock
from fastapi import FastAPI, HTTPException, Request

client = fairlock.Client(os.environ.get("REDIS_URL"))
timeout = float(os.environ.get("REPORT_TIMEOUT", 10))
ending = False


@asynccontextmanager
async def lifespan(app: FastAPI):
    of_uvicorn = signal.getsignal(signal.SIGTERM)

    def end(number, frame):
        global ending
        ending = True
        of_uvicorn(number, frame)

    # Not so in tests, where the lifespan runs in another thread.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
    yield
    # No request is left. What is held nevertheless is released.
    await client.aclose()


app = FastAPI(lifespan=lifespan)


async def turn(request: Request, lock: fairlock.Lock) -> fairlock.AsyncHeld:
    """Waits for the lock for as long as somebody wants the answer. A lost lease cancels the work."""
    acquire = asyncio.ensure_future(lock.acquire(timeout=timeout, on_lost="cancel"))
    try:
        while not acquire.done():
            await asyncio.wait([acquire], timeout=0.2)
            if ending or await request.is_disconnected():
                raise HTTPException(503, "not built", headers={"Retry-After": "10"})
        return acquire.result()
    finally:
        # Leaves the queue; nothing if it was granted.
        acquire.cancel()


@app.post("/reports/{user_id}")
async def rebuild(user_id: int, request: Request):
    lock = client.lock(f"reports:{user_id}", max_waiting=100)
    try:
        async with await turn(request, lock) as held:
            return {"user": user_id, "token": held.token}
    except (fairlock.Timeout, fairlock.QueueFull) as busy:
        raise HTTPException(503, str(busy), headers={"Retry-After": "10"})
    except fairlock.LockLost as lost:
        raise HTTPException(500, str(lost))
