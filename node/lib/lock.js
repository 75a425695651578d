'use strict'

// Locks, and places in their queues.
const { errors, checked } = require('./errors.js')
const { Lease } = require('./lease.js')
const { run, onAbort } = require('./operations.js')
const { options, request, value } = require('./options.js')

const { setTimeout, clearTimeout } = globalThis

/** Runs a job under a lease. What the job throws comes before what its release says. */
async function under(acquiring, job) {
  const lease = await acquiring
  let result
  try {
    result = await job(lease)
  } catch (error) {
    await lease[Symbol.asyncDispose]().catch(() => {})
    throw error
  }
  await lease[Symbol.asyncDispose]()
  return result
}

/** The options of an acquire may stand before its job. */
function jobOf(given) {
  const job = given.pop()
  value('the job', 'function', job)
  return [given[0], job]
}

class Lock {
  #native
  #made

  /** The client is kept by what is made here, so that it is closed when the process ends. */
  constructor(native, client) {
    this.#native = native
    this.#made = guard => guard && new Lease(guard, client)
    Object.freeze(Object.assign(this, native.facts()))
  }

  async acquire(given) {
    const { signal, native } = request(given)
    return run(checked(this.#native.acquire(native)), { signal, make: this.#made })
  }

  async tryAcquire(given) {
    const { signal, native } = request(given)
    return run(checked(this.#native.tryAcquire(native)), { signal, make: this.#made })
  }

  async run(...given) {
    const [options, job] = jobOf(given)
    return under(this.acquire(options), job)
  }

  async enqueue(given) {
    const { signal, native } = request(given)
    return run(checked(this.#native.enqueue(native)), { signal, make: waiting => new Place(waiting, signal, this.#made) })
  }

  async inspect() {
    return run(this.#native.inspect())
  }

  async break(token, given) {
    const { force = false } = options({ force: 'flag' }, given)
    return run(this.#native.breakLease(value('the token', 'token', token), force))
  }

  async history(count = 100) {
    const past = await run(this.#native.history(value('the count', 'count', count)))
    for (const grant of past.grants) grant.grantedAt = new Date(grant.grantedAt)
    return past
  }

  async recordHistory(on) {
    return run(this.#native.recordHistory(value('on', 'flag', on)))
  }

  async endRecovery() {
    return run(this.#native.endRecovery())
  }

  async trouble() {
    return run(this.#native.trouble())
  }

  static nativeOf(lock) {
    return lock.#native
  }
}

/** A place in the queue. Its grant is taken as soon as it comes, whoever waits for it. */
class Place {
  #waiting
  #granted
  #ended = false
  #wanted = false
  #leaving = new AbortController()

  constructor(waiting, given, make) {
    this.#waiting = waiting
    const follow = () => this.#leaving.abort(given.reason)
    if (given?.aborted) follow()
    const unheard = given && onAbort(given, follow)
    const end = () => {
      this.#ended = true
      unheard?.()
    }
    this.#granted = run(waiting.grant(), { signal: this.#leaving.signal, make })
    this.#granted.then(end, end)
  }

  get ticket() {
    return this.#waiting.ticket
  }

  async position() {
    return run(this.#waiting.position())
  }

  granted() {
    this.#wanted = true
    return this.#granted
  }

  /** Each position that is seen, until the wait is over. */
  async *positions(given) {
    const { every = 1000 } = options({ every: 'time' }, given)
    let before = 0
    while (!this.#ended) {
      try {
        const position = await this.position()
        if (position === 0) return
        if (position !== before) yield (before = position)
      } catch (error) {
        // The place outlives a server that is away.
        if (!(error instanceof errors.UnavailableError)) throw error
      }
      let timer
      const pause = new Promise(resolve => (timer = setTimeout(resolve, every)))
      await Promise.race([this.#granted.catch(() => {}), pause])
      clearTimeout(timer)
    }
  }

  /** A grant that nobody has asked for is released. */
  async leave() {
    this.#leaving.abort(new errors.FairlockError('this place in the queue was left'))
    if (this.#wanted) return
    const lease = await this.#granted.catch(() => null)
    await lease?.[Symbol.asyncDispose]()
  }

  async [Symbol.asyncDispose]() {
    await this.leave()
  }
}

module.exports = { Lock, Place, under, jobOf }
