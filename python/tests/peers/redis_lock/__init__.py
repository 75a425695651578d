"""In the place of python-redis-lock's package, also in the processes that its tests start."""

from fairlock.compat.redis_lock import *  # noqa: F403
