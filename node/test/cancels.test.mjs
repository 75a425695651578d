// Whoever gives up leaves nothing behind, at whichever moment.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { serverAndClient, waiting } from './support/kit.mjs'

const AT_ONCE = 50
const stop = new Error('stop')

/** Waits for so many microtasks, turns of the event loop, or milliseconds. */
async function later(moment) {
  if (moment % 4 === 0) return
  for (let count = 0; count < moment % 7; count++) await null
  for (let turns = 0; turns < moment % 5; turns++) await new Promise(setImmediate)
  if (moment % 11 === 0) await new Promise(resolve => setTimeout(resolve, 1))
}

/** One call that is aborted at some moment; the locks of all of them are in demand. */
async function cancelled(client, number) {
  const abort = new AbortController()
  const { signal } = abort
  const lock = client.semaphore(`busy ${number % 3}`, 1 + (number % 2))
  const calls = [
    () => lock.acquire({ signal }),
    () => lock.tryAcquire({ signal }),
    () => client.lockAll(['a', lock, 'z'], { signal }),
    async () => (await lock.enqueue({ signal })).granted(),
    async () => {
      const place = await lock.enqueue({ signal })
      for await (const _ of place.positions({ every: 1 })) abort.abort(stop)
      return place.granted()
    },
  ]
  const outcome = calls[number % calls.length]().then(lease => lease?.release().then(() => 'granted') ?? 'busy', error => {
    assert.equal(error, stop)
    return 'stopped'
  })
  await later(number)
  abort.abort(stop)
  return outcome
}

test('ten thousand cancels at all moments leave nothing behind', async t => {
  const { kit, server, client } = await serverAndClient(t)
  const count = { granted: 0, stopped: 0, busy: 0 }
  let next = 0
  const crew = Array.from({ length: AT_ONCE }, async () => {
    while (next < 10_000) count[await cancelled(client, next++)]++
  })
  await Promise.all(crew)
  t.diagnostic(JSON.stringify(count))
  // Both ends of the race are met.
  assert.ok(count.granted > 100 && count.stopped > 100, JSON.stringify(count))
  await kit.do('nothing_left', { of: server })
  // Nobody is waited for.
  await client.lockAll(['a', 'z', 'busy 0', 'busy 1', 'busy 2'], { timeout: 1000 }).then(leases => leases.release())
})

test('a grant that crosses an abort is released at once', async t => {
  const { client } = await serverAndClient(t)
  const lock = client.lock('crossed', { lease: 600_000 })
  for (let round = 0; round < 200; round++) {
    const abort = new AbortController()
    const held = await lock.acquire()
    const waits = lock.acquire({ signal: abort.signal })
    const outcome = waits.then(lease => lease.release(), error => assert.equal(error, stop))
    const released = held.release()
    // The grant is on its way, or has arrived and waits for this event loop.
    const until = performance.now() + (round % 10) / 10
    while (performance.now() < until);
    abort.abort(stop)
    await Promise.all([released, outcome])
    await (await lock.acquire({ timeout: 30_000 })).release()
  }
})

test('a signal that is aborted before, and one that is used for many calls', async t => {
  const { kit, server, client } = await serverAndClient(t)
  const lock = client.lock('signals')
  await assert.rejects(lock.acquire({ signal: AbortSignal.abort(stop) }), error => error === stop)
  await assert.rejects(lock.acquire({ signal: AbortSignal.abort() }), { name: 'AbortError' })
  const abort = new AbortController()
  // Node warns of signals with many listeners.
  process.on('warning', assert.ifError)
  t.after(() => process.off('warning', assert.ifError))
  const lease = await lock.acquire({ signal: abort.signal })
  const place = await lock.enqueue({ signal: abort.signal })
  const calls = [place.granted(), ...Array.from({ length: 100 }, () => lock.acquire({ signal: abort.signal }))]
  const outcomes = Promise.allSettled(calls)
  await waiting(lock, 101)
  abort.abort(stop)
  assert.ok((await outcomes).every(({ reason }) => reason === stop))
  await waiting(lock, 0)
  // What was granted before stays.
  lease.check()
  await lease.release()
  await kit.do('nothing_left', { of: server })
})
