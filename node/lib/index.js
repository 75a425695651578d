'use strict'

// Each name is written out, so that `import { … }` finds it.
const { Client, RwLock, connect } = require('./client.js')
const { errors } = require('./errors.js')
const { Lease, Leases } = require('./lease.js')
const { Lock, Place } = require('./lock.js')

module.exports = { Client, Lease, Leases, Lock, Place, RwLock, connect, ...errors }
