'use strict'

// Leases that are held.
const { inspect } = require('node:util')
const { errors, errorOf, checked } = require('./errors.js')
const { run, watch, hold } = require('./operations.js')
const { value } = require('./options.js')

/** How long the end of a block waits for the answer to its release. The client repeats it in the background. */
const PATIENCE = 1000
// Those of a test may be mocked.
const { setTimeout, clearTimeout } = globalThis

const dropped = new FinalizationRegistry(state => {
  const held = state.guard.check() === null
  const names = [state.guard.facts()].flat().map(({ name }) => JSON.stringify(name))
  state.guard.drop()
  // Its signal may be in use still.
  const end = state.guard.check()
  if (end) lost(state, errorOf(end))
  else over(state)
  // Whoever has lost it was told.
  if (!held) return
  process.emitWarning(
    `the lease of ${names.join(', ')} was dropped without a release, and is released now, so what follows did not hold ` +
      'the lock: write `await using lease = …`, or keep it until `await lease.release()`',
    { type: 'FairlockWarning', code: 'FAIRLOCK_DROPPED' },
  )
})

/** It keeps the event loop going no more. */
function over(state) {
  state.unwatch()
  state.unhold()
  dropped.unregister(state)
}

/**
 * The lease is lost: whoever hears of it first, the signal is aborted in the same step. This knows the state and not the
 * lease, which may be dropped meanwhile.
 */
function lost(state, loss) {
  if (state.loss) return
  over(state)
  state.loss = loss
  state.controller?.abort(loss)
}

/** What says that a lease was lost, and not that it was given back. */
const isLoss = error => error instanceof errors.LockLostError && error.reason !== 'released'

class Held {
  #state

  constructor(guard, client) {
    const state = { guard, client, loss: null, told: false, controller: null, unhold: hold(), unwatch: () => {} }
    this.#state = state
    dropped.register(this, state, state)
    state.unwatch = watch(guard.ended(), (error, loss) => {
      if (!error && !loss) return
      lost(state, error ?? errorOf(loss))
      state.told ||= state.controller !== null
    })
  }

  get remaining() {
    return this.#state.guard.remaining
  }

  get signal() {
    const state = this.#state
    if (!state.controller) {
      state.controller = new AbortController()
      if (state.loss) {
        state.told = true
        state.controller.abort(state.loss)
      }
    }
    return state.controller.signal
  }

  check() {
    const loss = this.#state.guard.check()
    if (loss) throw this.#heard(errorOf(loss))
  }

  async release() {
    const operation = this.#state.guard.release()
    if (operation === null) return
    // From here on the release tells of a loss.
    this.#state.unwatch()
    try {
      await run(operation)
    } catch (error) {
      if (isLoss(error)) lost(this.#state, error)
      throw error
    } finally {
      over(this.#state)
    }
  }

  /** Whoever was told of the loss is not told again at the end of the block, where it would hide what the block throws. */
  async [Symbol.asyncDispose]() {
    let timer
    const patience = new Promise(resolve => (timer = setTimeout(resolve, PATIENCE)))
    const release = this.release()
    try {
      await Promise.race([release, patience])
    } catch (error) {
      if (error instanceof errors.ReleaseUnknownError) return
      if (!(error instanceof errors.LockLostError && this.#state.told)) throw error
    } finally {
      clearTimeout(timer)
    }
  }

  /** Its caller hears of this. */
  #heard(error) {
    if (isLoss(error)) {
      this.#state.told = true
      lost(this.#state, error)
    }
    return error
  }

  /** An operation of the guard. */
  async _ask(operation) {
    try {
      return await run(checked(operation(this.#state.guard)))
    } catch (error) {
      throw this.#heard(error)
    }
  }

  _of(read) {
    return read(this.#state.guard)
  }
}

class Lease extends Held {
  #facts

  /** What does not change, read when it is first asked for. */
  get _facts() {
    return (this.#facts ??= this._of(guard => guard.facts()))
  }

  get slots() {
    return this._of(guard => guard.slots)
  }

  get grantedAt() {
    return new Date(this._facts.grantedAt)
  }

  renew() {
    return this._ask(guard => guard.renew())
  }

  async extend(additional) {
    value('the extension', 'time', additional)
    return this._ask(guard => guard.extend(additional))
  }

  downgrade() {
    return this._ask(guard => guard.downgrade())
  }

  verify() {
    return this._ask(guard => guard.verify())
  }

  renewed() {
    return this._ask(guard => guard.renewed())
  }

  [inspect.custom](depth, options) {
    const { name, token, slot, slots, remaining } = this
    return `Lease ${inspect({ name, token, slot, slots, remaining }, options)}`
  }
}

for (const fact of ['name', 'token', 'slot', 'ticket', 'id', 'owner', 'label', 'lease', 'waited']) {
  Object.defineProperty(Lease.prototype, fact, { get() { return this._facts[fact] } })
}

/** The leases of several locks. */
class Leases extends Held {
  get #facts() {
    return this._of(guard => guard.facts())
  }

  get tokens() {
    return Object.fromEntries(this.#facts.map(({ name, token }) => [name, token]))
  }

  get slotOf() {
    return Object.fromEntries(this.#facts.map(({ name, slot }) => [name, slot]))
  }

  [inspect.custom](depth, options) {
    const { tokens, slotOf, remaining } = this
    return `Leases ${inspect({ tokens, slotOf, remaining }, options)}`
  }
}

module.exports = { Lease, Leases }
