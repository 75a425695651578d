'use strict'

// Each name is written out, so that `import { … }` finds it.
const { Client, RwLock, connect } = require('./client.js')
const {
  AuthenticationError, ClosedError, ConnectionError, FairlockError, InvalidOptionError, LeaseBrokenError, LockLostError,
  MissingRightError, NotTakenError, QueueFullError, RefusedError, ReleaseUnknownError, TimeoutError, UnavailableError,
} = require('./errors.js').errors
const { Lease, Leases } = require('./lease.js')
const { Lock, Place } = require('./lock.js')

module.exports = {
  AuthenticationError, Client, ClosedError, ConnectionError, FairlockError, InvalidOptionError, Lease, LeaseBrokenError,
  Leases, Lock, LockLostError, MissingRightError, NotTakenError, Place, QueueFullError, RefusedError, ReleaseUnknownError,
  RwLock, TimeoutError, UnavailableError, connect,
}
