// Drives the package for `make conformance`: the lines of docs/conformance.md.
import { createInterface } from 'node:readline'
import { Client, FairlockError, LockLostError, ReleaseUnknownError, TimeoutError, UnavailableError } from 'fairlock'

const say = (...words) => process.stdout.write(`${words.join(' ')}\n`)
const held = new Map()
const leaving = new Map()
const underWay = new Set()

async function acquire(lock, waiter, timeout) {
  const leave = new AbortController()
  leaving.set(waiter, leave)
  const { signal } = leave
  try {
    if (timeout === undefined) {
      const lease = await lock.tryAcquire({ signal })
      if (!lease) return say('busy', waiter)
      held.set(waiter, lease)
    } else {
      const place = await lock.enqueue({ signal, timeout: timeout === '-' ? Infinity : timeout / 1000 })
      say('queued', waiter, place.ticket)
      held.set(waiter, await place.granted())
    }
    const { token, ticket, slot } = held.get(waiter)
    say('granted', waiter, token, ticket, slot)
  } catch (error) {
    if (signal.aborted) say('left', waiter)
    else if (error instanceof TimeoutError || error instanceof UnavailableError) say('timeout', waiter)
    else say('failed', waiter, JSON.stringify(String(error)))
  } finally {
    leaving.delete(waiter)
  }
}

async function release(waiter, words = ['released', 'lost']) {
  const lease = held.get(waiter)
  held.delete(waiter)
  try {
    await lease.release()
    say(words[0], waiter)
  } catch (error) {
    if (!(error instanceof LockLostError || error instanceof ReleaseUnknownError)) throw error
    say(words[1], waiter)
  }
}

function isHeld(waiter) {
  try {
    held.get(waiter)?.check()
    return held.has(waiter) && held.get(waiter).remaining > 0
  } catch (error) {
    if (!(error instanceof FairlockError)) throw error
    return false
  }
}

const begin = steps => underWay.add(steps.finally(() => underWay.delete(steps)))
let client, lock
for await (const line of createInterface(process.stdin)) {
  const [verb, waiter, ...rest] = line.split(' ')
  if (verb === 'open') {
    const [prefix, name, lease, liveness, buffer, notice, slots] = rest
    const ms = Object.entries({ lease, liveness, buffer, notice }).map(([option, time]) => [option, time / 1000])
    client = new Client(waiter, { prefix })
    lock = client.lock(name, { ...Object.fromEntries(ms), slots: Number(slots) })
    say('ready waits pushes full leaves slots')
  } else if (verb === 'held') {
    if (isHeld(waiter)) say('held', waiter, held.get(waiter).slot)
    else say('lost', waiter)
  } else if (verb === 'release') begin(release(waiter))
  else if (verb !== 'leave') begin(acquire(lock, waiter, rest[0]))
  // It was granted before it heard that it should leave.
  else if (held.has(waiter)) begin(release(waiter, ['left', 'left']))
  else leaving.get(waiter)?.abort()
}
await Promise.allSettled(underWay)
await client.close()
