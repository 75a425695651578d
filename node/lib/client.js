'use strict'

// Clients.
const native = require('./native.js')
const { checked } = require('./errors.js')
const { Leases } = require('./lease.js')
const { Lock, under, jobOf } = require('./lock.js')
const { run } = require('./operations.js')
const { LOCK, options, request, settings, value, invalid } = require('./options.js')

/**
 * Clients that are to be closed when the process or the worker ends. Their locks and leases keep them; a client that
 * nobody has is closed by itself.
 */
const open = new Map()
const forgotten = new FinalizationRegistry(key => open.delete(key))

process.on('exit', () => {
  for (const client of open.values()) client.deref()?.closeNow()
})

function opened(client) {
  const key = Symbol('client')
  open.set(key, new WeakRef(client))
  forgotten.register(client, key, client)
  return key
}

/** The settings of the native half, and what asks the program for its login. */
function parts({ credentials, ...settings }) {
  if (!credentials) return [settings, undefined]
  const ask = async answered => {
    try {
      const { user, password, expiresIn } = await credentials()
      answered.with({ user, password, expiresIn })
    } catch (error) {
      answered.with({ error: String(error?.message ?? error) })
    }
  }
  return [settings, answered => void ask(answered)]
}

/** An option that belongs to the call, and not to the lock. */
const ofLock = (given, without = ['slots']) => {
  const kinds = Object.fromEntries(Object.entries(LOCK).filter(([name]) => !without.includes(name)))
  return options(kinds, given)
}

class Client {
  #native
  #key

  constructor(url, given) {
    this.#own(url instanceof native.Client ? url : checked(native.connectLazy(...parts(settings(url, given)))))
  }

  static fromEnv(given) {
    const [all, ask] = parts(settings(undefined, given))
    return new Client(checked(native.connectLazy({ ...all, environment: true }, ask)))
  }

  #own(client) {
    this.#native = client
    this.#key = opened(client)
  }

  #lock(made) {
    return new Lock(checked(made), this.#native)
  }

  lock(name, given) {
    return this.#lock(this.#native.lock(value('the name', 'text', name), ofLock(given, [])))
  }

  semaphore(name, slots, given) {
    return this.lock(name, { ...ofLock(given), slots: value('slots', 'slots', slots) })
  }

  rwLock(name, given) {
    const all = [value('the name', 'text', name), ofLock(given)]
    return new RwLock(this.#lock(this.#native.reader(...all)), this.#lock(this.#native.writer(...all)))
  }

  async lockAll(locks, given) {
    if (!Array.isArray(locks)) throw invalid('lockAll takes an array of names and locks')
    const { signal, native: asked } = request(given)
    const all = locks.map(lock => Lock.nativeOf(lock instanceof Lock ? lock : this.lock(lock)))
    return run(checked(native.lockAll(all, asked)), { signal, make: guard => new Leases(guard, this.#native) })
  }

  async close() {
    open.delete(this.#key)
    await run(this.#native.close())
  }

  async [Symbol.asyncDispose]() {
    await this.close()
  }
}

/** Readers hold it together, a writer alone. */
class RwLock {
  constructor(reader, writer) {
    this.reader = reader
    this.writer = writer
    Object.freeze(this)
  }

  get name() {
    return this.writer.name
  }

  read(given) {
    return this.reader.acquire(given)
  }

  tryRead(given) {
    return this.reader.tryAcquire(given)
  }

  write(given) {
    return this.writer.acquire(given)
  }

  tryWrite(given) {
    return this.writer.tryAcquire(given)
  }

  inspect() {
    return this.writer.inspect()
  }

  break(token, given) {
    return this.writer.break(token, given)
  }
}

/** A client that is connected. */
async function connect(url, given) {
  return new Client(await run(native.connect(...parts(settings(url, given)))))
}

module.exports = { Client, RwLock, connect, under, jobOf }
