"""Drop-in classes: the interfaces of other locks on Redis, so that an import is all that changes.

They take a client of redis-py (``redis.Redis``, ``redis.RedisCluster`` or their counterparts in ``redis.asyncio``) and
read its settings; they need ``pip install redis``. python-redis-lock's names are in :mod:`fairlock.compat.redis_lock`.

**Exclusion is among users of fairlock**: a process that still uses the old class under the same name is not seen.
Change all of them at once.
"""

from ._fair import ClusterLock, RedisFairLock
from ._settings import client_of, forget_clients
from ._tasks import (
    AsyncRedisKeyedMutex,
    DistributedLock,
    distributed_lock,
    distributed_lock_decorator,
    set_default_redis,
)
from .redis_py import AsyncLock, Lock

__all__ = [
    "AsyncLock",
    "AsyncRedisKeyedMutex",
    "ClusterLock",
    "DistributedLock",
    "Lock",
    "RedisFairLock",
    "client_of",
    "distributed_lock",
    "distributed_lock_decorator",
    "forget_clients",
    "set_default_redis",
]

# Tracebacks name what people import.
for _name in __all__:
    globals()[_name].__module__ = __name__
