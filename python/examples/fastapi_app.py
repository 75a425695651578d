"""An endpoint of which one at a time runs for each user, over all servers and workers.

    uvicorn fastapi_app:app --workers 4
"""

import os
from contextlib import asynccontextmanager

import fairlock
from fastapi import FastAPI, HTTPException

client = fairlock.Client(os.environ.get("REDIS_URL"))


@asynccontextmanager
async def lifespan(app: FastAPI):
    yield
    # Requests that still wait hear that the client is closed, and what is held is released.
    await client.aclose()


app = FastAPI(lifespan=lifespan)


@app.post("/reports/{user_id}")
async def rebuild(user_id: int):
    # A client that hangs up cancels its request, which leaves the queue. A lost lease cancels the work.
    lock = client.lock(f"reports:{user_id}", max_waiting=100)
    try:
        async with lock.acquire(timeout=10, on_lost="cancel") as held:
            return {"user": user_id, "token": held.token}
    except (fairlock.Timeout, fairlock.QueueFull) as busy:
        raise HTTPException(503, str(busy), headers={"Retry-After": "10"})
    except fairlock.LockLost as lost:
        raise HTTPException(500, str(lost))
